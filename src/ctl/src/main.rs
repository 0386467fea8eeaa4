//! `nrictl`: administration of nri-container-runtime.

mod audit;
mod bypass;
mod completions;
mod doctor;
mod dry_run;
mod engine_containers;
mod error;
mod exit_code;
mod in_charge;
mod install;
mod logs;
mod man_pages;
mod nrid;
mod nrid_location;
mod output;
mod plugin_socket;
mod plugins;
mod ready;
mod reload;
mod rootless;
mod rotated_log;
mod shipped_plugins;
mod status;
mod support;
mod table;
mod uncalled;
mod units;
mod usage;
mod validate;
mod verify;
mod version;
mod views;

use clap::{CommandFactory, Parser, Subcommand, ValueHint};
use completions::CompletionShell;
use engine_containers::or_unknown;
use error::CtlError;
use exit_code::{NOT_RUNNING, problem_unless};
use nri_control::{Reloaded, touch_as_child};
use nrid_location::NridLocation;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};
use table::TableForm;
use uncalled::Uncalled;

/// Heading of the options of all subcommands, which come after those of the subcommand.
const GLOBAL_OPTIONS: &str = "Global options";

/// Administers nri-container-runtime.
#[derive(Parser)]
#[command(version, about, after_long_help = exit_code::help(), max_term_width = 100)]
struct Arguments {
    /// State directory of nrid.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "DIR",
        value_hint = ValueHint::DirPath
    )]
    state_dir: Option<PathBuf>,
    /// Configuration file.
    #[arg(
        long,
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "FILE",
        value_hint = ValueHint::FilePath
    )]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

/// The subcommands. The first paragraph of each is its line in `nrictl --help`, of at most 80
/// columns; all paragraphs are in its own `--help` and man page.
#[derive(Subcommand)]
enum Command {
    /// Start nrid, if it does not run.
    ///
    /// The first container starts it as well. External plugins can connect only once it runs.
    Start,
    /// Stop nrid and the plugins that it launched.
    ///
    /// Containers and external plugins keep running.
    Stop,
    /// Say whether nrid serves: for probes, without root.
    ///
    /// Asks `plugins/ready.sock` in the state directory, which needs neither root nor the control
    /// socket. A container mounts the directory `plugins` of the host, and names the state
    /// directory with `--state-dir`. Waits for at most 2 seconds.
    ///
    /// Exit code 1 if nrid does not answer, 3 if it does not run.
    Ready,
    /// Apply changes of the configuration and of the plugin directory.
    ///
    /// nrid reads its configuration again, and launches, relaunches and stops plugins as the
    /// configuration and the plugin directory require. Other plugins and all containers stay as
    /// they are. An invalid configuration changes nothing.
    ///
    /// Exit code 3 if nrid does not run, 4 if a plugin could not be launched or a path in the
    /// configuration does not exist.
    Reload {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Replace the running nrid by the installed program.
    ///
    /// The process stays the same: requests in progress are finished, callers wait, records and
    /// containers stay. Launched plugins are launched again, and other plugins have to reconnect.
    /// If the installed nrid cannot run, the running nrid continues. Starts nrid if it does not
    /// run.
    Restart,
    /// Check the installation, and say what is wrong with it.
    ///
    /// Checks configuration, programs, plugin sockets and their processes, and for each engine
    /// whether its own NRI or ours adapts its containers.
    ///
    /// Exit code 4 if there is a problem.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check the configuration file and the files that it names.
    ///
    /// Checks the configuration, each file of the plugin directory, the files of block I/O and RDT
    /// classes, and the CDI specifications, as nrid reads them. nrid need not run, and a file may
    /// be checked before it is put in place: `nrictl --config NEW.toml validate`.
    ///
    /// Exit code 4 if there is a problem.
    Validate {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Ask plugins what they would change in a container.
    ///
    /// Launches further instances of the plugins whose policy has `dry_run = true`, without
    /// capabilities and network and with a read-only /sys, and ends them. Containers, records, logs
    /// and the bundle stay as they are. Other plugins are listed as not asked. nrid need not run.
    ///
    /// Exit code 4 if the creation would be refused, or a plugin did not reply.
    DryRun(dry_run::DryRunCommand),
    /// Put the wrapper into an engine's configuration.
    ///
    /// Everything else in the configuration stays. `uninstall` removes what was added.
    Install(install::Install),
    /// Take the wrapper out of an engine's configuration.
    Uninstall(install::Uninstall),
    /// List containers and the plugins that adjusted them.
    ///
    /// Sandbox containers are shown by `nrictl pods`, and containers that have ended only with
    /// `--all`. `--all-runtimes` shows what engines run without nrid, too.
    ///
    /// Exit code 3 if nrid does not run, except with `--all-runtimes`.
    #[command(visible_alias = "ps")]
    Containers(views::ListContainers),
    /// List pods, with the plugins that adjusted their containers.
    ///
    /// A container that its engine has put into no pod is in a pod of its own, with its id.
    ///
    /// Exit code 3 if nrid does not run.
    Pods(views::ListPods),
    /// Show what nrid knows of a container or pod, as JSON.
    ///
    /// Shows engine, runtime, bundle, state, cgroups, hooks, requested and effective resources,
    /// the plugin that set each field, and the plugins that it missed. The environment is left
    /// out, since it often has secrets.
    ///
    /// Exit code 1 if there is no such container or pod, or several; 3 if nrid does not run.
    Inspect(views::Inspect),
    /// Show what a container uses: CPUs, memory, swap, pids and more.
    ///
    /// Reads the container's cgroups, of either version: also huge pages, pressure and OOM kills.
    /// What is not available there is shown so, with the reason.
    ///
    /// Exit code 1 if there is no such container, or several; 3 if nrid does not run.
    Stats(usage::Stats),
    /// Show what containers use, and the load of plugins, live.
    ///
    /// Refreshed every two seconds. Key s sorts by another column, q ends it. Without a terminal,
    /// `--once` prints one table.
    ///
    /// Exit code 3 if nrid does not run.
    Top(usage::Top),
    /// Show the log of nrid, or what a launched plugin has written.
    ///
    /// Reads the log file, or the journal if nrid writes to that. The file is read even if nrid
    /// does not run.
    Logs(logs::Logs),
    /// Compare what plugins set with the cgroups of containers.
    ///
    /// Compares the requested resources of containers with their cgroups, file by file, and shows
    /// those that a plugin set or that differ, with the plugin.
    ///
    /// Exit code 3 if nrid does not run, 4 if a value differs.
    Verify {
        /// Ids of containers, else their names, else prefixes of their ids. Without any: all
        /// containers that have a process.
        #[arg(value_name = "CONTAINER")]
        containers: Vec<String>,
        /// Show the values that engines set, too.
        #[arg(long)]
        all: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    Events(audit::EventsCommand),
    Explain(audit::ExplainCommand),
    /// Show nrid, its plugins, and the number of its containers.
    ///
    /// Exit code 3 if nrid does not run.
    Status {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show more: `wide` adds the events of each plugin.
        #[arg(short, long, value_name = "FORM", conflicts_with = "json")]
        output: Option<TableForm>,
    },
    /// Show the plugins: processes, calls, failures, times and memory.
    ///
    /// Calls are counted since nrid started, by the name of the plugin. P50 and P99 are the times
    /// that half and 99 % of the calls do not exceed, as estimated from a histogram.
    ///
    /// Exit code 3 if nrid does not run.
    Plugins {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show more: `wide` adds timeouts, waiting times, restarts and the subscribed events.
        #[arg(short, long, value_name = "FORM", conflicts_with = "json")]
        output: Option<TableForm>,
    },
    Plugin(shipped_plugins::PluginCommand),
    /// Collect what a bug report needs in an archive, secrets masked.
    ///
    /// Reports of nrictl, the logs, the configuration and those of the engines, versions, and
    /// facts about the host. Values that look like passwords, tokens or keys are masked; plugins'
    /// configuration files are only listed. Look through the archive before you send it.
    SupportBundle(support::SupportBundle),
    /// Show or change the level of the log of nrid.
    ///
    /// A change lasts until the next reload or start, which apply `[log] level`.
    ///
    /// Exit code 3 if nrid does not run.
    LogLevel(logs::LogLevel),
    /// Show the versions of nrictl, nrid and the runtime.
    ///
    /// Of nrid, the version that runs. The runtime is the one that the configuration names, or the
    /// first that is found.
    Version {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the completion script for a shell.
    ///
    /// For bash: `nrictl completions bash >/etc/bash_completion.d/nrictl`.
    Completions {
        /// The shell.
        shell: CompletionShell,
    },
    /// Write the containers that a group of engine processes monitors, for other subcommands.
    #[command(hide = true)]
    ReadContainers {
        /// Id of the group.
        group: String,
    },
    /// Write the man pages, for packages.
    #[command(hide = true)]
    ManPages {
        /// An existing directory.
        #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: PathBuf,
    },
}

fn main() -> ExitCode {
    if touch_as_child() {
        return ExitCode::SUCCESS;
    }
    run(&Arguments::parse()).unwrap_or_else(|error| {
        // A failed write to standard error cannot be reported anywhere.
        let _ = io::stderr().write_fmt(format_args!("nrictl: {error}\n"));
        error.code()
    })
}

fn run(arguments: &Arguments) -> Result<ExitCode, CtlError> {
    let config_path = arguments.config.as_deref();
    let nrid = NridLocation::find(config_path, arguments.state_dir.as_deref());
    match &arguments.command {
        // Doctor reports an invalid configuration as one of its findings.
        Command::Doctor { json } => doctor::run(&nrid, *json),
        Command::Completions { shell } => {
            completions::print(Arguments::command(), *shell)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::ReadContainers { group } => engine_containers::write_containers(group)
            .map(|()| ExitCode::SUCCESS)
            .map_err(Into::into),
        Command::ManPages { dir } => man_pages::write(Arguments::command(), dir)
            .map(|()| ExitCode::SUCCESS)
            .map_err(CtlError::ManPages),
        // Install and uninstall need neither nrid nor a valid configuration.
        Command::Install(install) => {
            install.run(config_path, arguments.state_dir.as_deref())?;
            if install.is_reported_for_this_host() {
                report_installation(arguments)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Uninstall(uninstall) => {
            uninstall.run(config_path, arguments.state_dir.as_deref())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Verify { containers, all, json } => {
            verify::run(&nrid.print_warning(), containers, *all, *json)
        }
        Command::Containers(containers) => {
            containers.run(&nrid.print_warning()).map(|()| ExitCode::SUCCESS)
        }
        Command::Pods(pods) => pods.run(&nrid.print_warning()).map(|()| ExitCode::SUCCESS),
        Command::Inspect(inspect) => {
            let nrid = nrid.print_warning();
            or_unknown(inspect.run(&nrid), &nrid, &inspect.id).map(|()| ExitCode::SUCCESS)
        }
        Command::Validate { json } => validate::run(&nrid, *json),
        Command::DryRun(dry_run) => dry_run.run(&nrid),
        Command::SupportBundle(bundle) => {
            bundle.run(&nrid)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Events(events) => events.run(&nrid.print_warning()).map(|()| ExitCode::SUCCESS),
        Command::Explain(explain) => {
            let nrid = nrid.print_warning();
            or_unknown(explain.run(&nrid), &nrid, &explain.container)?;
            if explain.is_for_people() {
                Uncalled::print(&nrid, nrid::running_status(&nrid).as_deref())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Command::Stats(stats) => {
            let nrid = nrid.print_warning();
            or_unknown(stats.run(&nrid), &nrid, &stats.id).map(|()| ExitCode::SUCCESS)
        }
        Command::Top(top) => top.run(&nrid.print_warning()).map(|()| ExitCode::SUCCESS),
        Command::Logs(logs) => logs.run(&nrid.print_warning()).map(|()| ExitCode::SUCCESS),
        Command::Start => reload::start(&nrid.checked()?).map(|()| ExitCode::SUCCESS),
        Command::Stop => nrid::stop(&nrid.print_warning()).map(|()| ExitCode::SUCCESS),
        Command::Restart => reload::restart(&nrid.print_warning()).map(|()| ExitCode::SUCCESS),
        Command::Ready => ready::ask(&nrid.launcher.state_dir).map(|()| ExitCode::SUCCESS),
        Command::Reload { json } => match nrid::reload(nrid)? {
            Some(reloaded) => print_reloaded(arguments, &reloaded, *json),
            None => {
                reload::print_not_running(*json)?;
                Ok(ExitCode::from(NOT_RUNNING))
            }
        },
        Command::Status { json, output } => status::run(&nrid.print_warning(), *json, *output),
        Command::Version { json } => {
            version::print(&nrid.print_warning(), *json)?;
            Ok(ExitCode::SUCCESS)
        }
        Command::LogLevel(log_level) => {
            log_level.run(&nrid.print_warning()).map(|()| ExitCode::SUCCESS)
        }
        // What is linked where depends on the configuration.
        Command::Plugin(plugin) => manage_plugin(plugin, arguments, nrid.checked()?),
        Command::Plugins { json, output } => plugins::run(&nrid.print_warning(), *json, *output),
    }
}

/// Prints how plugins reach `nrid` after an installation, which may have changed the configuration.
fn report_installation(arguments: &Arguments) -> Result<(), CtlError> {
    let nrid = NridLocation::find(arguments.config.as_deref(), arguments.state_dir.as_deref());
    plugin_socket::print(&nrid)?;
    Ok(Uncalled::print(&nrid, nrid::running_status(&nrid).as_deref())?)
}

/// Runs `nrictl plugin`, and lets `nrid` take what it changed. A mistake in the configuration of a
/// plugin is found now, and not at the first container.
fn manage_plugin(
    plugin: &shipped_plugins::PluginCommand,
    arguments: &Arguments,
    nrid: NridLocation,
) -> Result<ExitCode, CtlError> {
    if !plugin.run(&nrid)? {
        return Ok(ExitCode::SUCCESS);
    }
    let is_start = plugin.enables() && nrid::connect(&nrid)?.is_none();
    if is_start {
        nrid::start(&nrid)?;
    }
    if let Some(reloaded) = nrid::reload(nrid)? {
        return print_reloaded(arguments, &reload::since_start(*reloaded, is_start), false);
    }
    let nrid = NridLocation::find(arguments.config.as_deref(), arguments.state_dir.as_deref());
    Uncalled::print(&nrid, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the result of a reload.
fn print_reloaded(
    arguments: &Arguments,
    reloaded: &Reloaded,
    json: bool,
) -> Result<ExitCode, CtlError> {
    let nrid = NridLocation::find(arguments.config.as_deref(), arguments.state_dir.as_deref());
    let status = nrid::running_status(&nrid);
    let hidden = status.as_ref().map(|status| reload::hidden_configurations(&status.plugins));
    let uncalled = Uncalled::find(&nrid, status.as_deref());
    Ok(problem_unless(reload::print(reloaded, hidden.unwrap_or_default(), uncalled, json)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Usual width of a terminal.
    const COLUMNS: usize = 80;

    #[test]
    fn the_help_has_a_line_for_each_subcommand_and_fits_80_columns() {
        let mut command = Arguments::command().term_width(0);
        command.build();
        for (form, help) in [("-h", command.render_help()), ("--help", command.render_long_help())]
        {
            for line in help.to_string().lines() {
                assert!(line.chars().count() <= COLUMNS, "nrictl {form}: {line}");
            }
        }
        for subcommand in command.get_subcommands() {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.contains('\n'), "{}", subcommand.get_name());
        }
    }

    #[test]
    fn the_definitions_of_the_command_line_are_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn commands_that_messages_quote_are_whole() {
        error::tests::check_quoted_commands(&Arguments::command());
    }
}
