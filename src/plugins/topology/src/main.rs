//! The command line: the plugin itself, and what an administrator asks it.

use nri_plugin::flags::{Flags, parse};
use nri_topology::{
    account::{self, Account},
    allocator::Allocator,
    hardware::{snapshot::Snapshot, sysfs},
    plugin::Topology,
    policy::Policy,
    socket,
    status::Status,
    svg,
};
use std::{
    fs,
    io::{Write, stderr, stdout},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// NRI plugin that places containers on CPUs and memory nodes by a policy. Without a command, it is
/// the plugin.
#[derive(clap::Parser)]
#[command(name = "nri-topology", version)]
struct CommandLine {
    #[command(flatten)]
    plugin: Flags,
    /// Policy, unless the runtime sends one; SIGHUP reads it again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory with the CPUs and memory nodes
    #[arg(long, value_name = "DIR", default_value = "/sys/devices")]
    devices: PathBuf,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Shows who has which CPUs
    Status {
        /// Socket of the plugin, if the policy names another one
        #[arg(long, value_name = "PATH", default_value = "/run/nri-topology/status.sock")]
        from: PathBuf,
        /// Write a picture to this file instead
        #[arg(long, value_name = "FILE", conflicts_with = "json")]
        svg: Option<PathBuf>,
        /// Print JSON instead
        #[arg(long)]
        json: bool,
    },
    /// Checks a policy against this machine, and shows what it reserves
    Check {
        /// The policy
        file: PathBuf,
    },
    /// Prints what is known of the CPUs and memory nodes, for reports of problems
    Snapshot,
}

/// Error of a command, which names what failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("no status from {path}: {source}; does the plugin run?")]
    Status { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Policy { path: PathBuf, source: nri_topology::policy::PolicyError },
    #[error(transparent)]
    Sysfs(#[from] sysfs::SysfsError),
    #[error("stdout: {0}")]
    Stdout(std::io::Error),
}

fn main() -> ExitCode {
    let CommandLine { plugin, config, devices, command } = parse();
    let Some(command) = command else {
        let builder = plugin.builder(Topology::new(devices));
        return match config {
            Some(file) => builder.config_file(file).main(),
            None => builder.main(),
        };
    };
    let result = match command {
        Command::Status { from, svg, json } => status(&from, svg.as_deref(), json),
        Command::Check { file } => check(&file, &devices),
        Command::Snapshot => print(&Snapshot::read(&devices).to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nothing is left to report a failure to.
            let _ = writeln!(stderr(), "nri-topology: {error}");
            ExitCode::FAILURE
        }
    }
}

fn status(from: &Path, svg: Option<&Path>, json: bool) -> Result<(), CommandError> {
    let failed = |source| CommandError::Status { path: from.to_owned(), source };
    let status = socket::read(from).map_err(failed)?;
    match svg {
        Some(path) => fs::write(path, svg::picture(&status))
            .map_err(|source| CommandError::File { path: path.to_owned(), source }),
        None if json => {
            let text = serde_json::to_string_pretty(&status);
            print(&format!("{}\n", text.map_err(|error| failed(error.into()))?))
        }
        None => print(&status.table()),
    }
}

fn check(path: &Path, devices: &Path) -> Result<(), CommandError> {
    let text = fs::read_to_string(path)
        .map_err(|source| CommandError::File { path: path.to_owned(), source })?;
    let wrong = |source| CommandError::Policy { path: path.to_owned(), source };
    let policy: Policy = text.parse().map_err(wrong)?;
    let machine = sysfs::machine(&Snapshot::read(devices))?;
    let classes: Vec<&str> = policy.classes.keys().map(String::as_str).collect();
    let classes = format!("Classes:   {}\n", classes.join(", "));
    let warnings = account::warnings(&policy);
    let allocator = Allocator::new(machine, policy).map_err(wrong)?;
    let most = allocator.allowed(&Account::Requests).unwrap_or_default();
    let requests = format!("Requests:  {most} CPUs at most without a rule or a quota\n");
    let table = Status::of(&allocator).table();
    let summary: String =
        table.lines().take_while(|line| line.contains(':')).map(|l| format!("{l}\n")).collect();
    print(&(summary + &requests + &classes))?;
    for warning in warnings {
        // The policy is right: the exit code does not depend on the warning.
        let _ = writeln!(stderr(), "nri-topology: {}: {warning}", path.display());
    }
    Ok(())
}

fn print(text: &str) -> Result<(), CommandError> {
    stdout().write_all(text.as_bytes()).map_err(CommandError::Stdout)
}
