//! The command line.

use crate::{
    Error,
    case::{self, Case},
    driver::{Cri, Docker, Driver, Oci, Script},
    plugin::Sessions,
    report::{Notes, Outcome, Results, Status, document, table},
    run::Runner,
    vectors,
};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::{
    io::{Write, stderr},
    path::{Path, PathBuf},
};

/// Tests how runtimes conform to NRI, containerd's Node Resource Interface.
#[derive(Debug, Parser)]
#[command(name = "nri-conformance", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the cases at a runtime; exit with 1 if one fails.
    Run(Box<RunOptions>),
    /// Print the matrix of several runs.
    Matrix {
        /// Files that `run --json` has written.
        files: Vec<PathBuf>,
        /// Print the document, in Markdown.
        #[arg(long)]
        document: bool,
        #[command(flatten)]
        data: Data,
    },
    /// Print the names of the cases and what they require.
    List {
        #[command(flatten)]
        data: Data,
    },
}

#[derive(Debug, Args)]
struct Data {
    /// Directory with `cases` and `notes.toml`.
    #[arg(long, value_name = "DIR", default_value = env!("CARGO_MANIFEST_DIR"))]
    data: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// A program with runc's command line.
    Oci,
    /// An engine with Docker's command line, such as Podman.
    Docker,
    /// An engine with the container runtime interface.
    Cri,
    /// An executable with the verbs that the README describes.
    Script,
}

#[derive(Debug, Args)]
struct RunOptions {
    /// NRI socket of the runtime.
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// How containers are created.
    #[arg(long, value_enum)]
    driver: Kind,
    /// The engine's client and its first arguments, separated by spaces.
    #[arg(long, value_name = "COMMAND")]
    client: String,
    /// Title of the column in the matrix.
    #[arg(long, default_value = "result")]
    label: String,
    /// Image with /bin/sleep (docker, cri).
    #[arg(long, default_value = "localhost/busybox:local")]
    image: String,
    /// More arguments of `create`, separated by spaces (docker).
    #[arg(long, value_name = "WORDS", default_value = "", allow_hyphen_values = true)]
    create: String,
    /// Runtime handler (cri).
    #[arg(long, value_name = "NAME", default_value = "")]
    handler: String,
    /// Parent cgroup of pods (cri).
    #[arg(long, value_name = "PATH", default_value = "")]
    cgroup_parent: String,
    /// Root file system with /bin/sleep (oci).
    #[arg(long, value_name = "DIR")]
    rootfs: Option<PathBuf>,
    /// Path of containers' OCI configs if the engine does not tell it: `{id}` for the id, `*` as in
    /// a shell.
    #[arg(long, value_name = "PATTERN")]
    oci_config: Option<String>,
    /// Version of NRI, if the runtime does not announce one; else concluded from its events.
    #[arg(long, value_name = "VERSION")]
    nri: Option<String>,
    /// Only cases whose names contain this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// At most this many vectors of each group, spread evenly.
    #[arg(long, value_name = "COUNT", default_value_t = usize::MAX, hide_default_value = true)]
    vectors: usize,
    /// Directory of the merge vectors.
    #[arg(
        long,
        value_name = "DIR",
        default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cases/vectors")
    )]
    vector_files: PathBuf,
    /// Write the results to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    data: Data,
}

/// Performs the command line; returns what to print and the exit code.
///
/// # Errors
/// If a file cannot be read or written, or no plugin can connect.
pub fn main() -> Result<(String, u8), Error> {
    match Cli::parse().command {
        Command::Run(options) => run(&options),
        Command::Matrix { files, document: is_document, data } => {
            let all: Vec<Results> =
                files.iter().map(|path| Results::read(path)).collect::<Result<_, _>>()?;
            let text = match is_document {
                true => document(&all, &Notes::read(&data.data.join("notes.toml"))?),
                false => table(&all),
            };
            Ok((text, 0))
        }
        Command::List { data } => {
            let cases = case::load(&data.data.join("cases"))?;
            let line = |case: &Case| format!("{}: {}\n", case.id, case.about);
            Ok((cases.iter().map(line).collect(), 0))
        }
    }
}

fn run(options: &RunOptions) -> Result<(String, u8), Error> {
    let data = &options.data.data;
    let notes = Notes::read(&data.join("notes.toml"))?;
    let cases = case::load(&data.join("cases"))?;
    let bundles = tempfile::Builder::new().prefix("nri-conformance-").tempdir();
    let bundles = bundles.map_err(Error::Start)?;
    let driver = driver(options, bundles.path())?;
    let mut sessions = Sessions::new(&options.socket).map_err(Error::Start)?;
    let mut facts = sessions
        .probe()
        .map_err(|reason| Error::Connect { socket: options.socket.clone(), reason })?;
    if let Some(nri) = &options.nri {
        facts.nri.clone_from(nri);
    }
    let prefix = format!("nrictest{}", std::process::id());
    let oci_config = options.oci_config.clone();
    let runner = Runner { driver, sessions, facts, oci_config, prefix };
    let mut outcomes: Vec<Outcome> = Vec::new();
    for case in cases.iter().filter(|case| case.id.contains(&options.only)) {
        let outcome = runner.run(case);
        progress(&outcome);
        outcomes.push(outcome);
    }
    if "vectors".contains(&options.only) && options.vectors > 0 {
        let vectors = vectors::load(&options.vector_files)?;
        let of_vectors = runner.run_vectors(&vectors, options.vectors);
        of_vectors.iter().for_each(progress);
        outcomes.extend(of_vectors);
    }
    notes.mark(&runner.facts.name, &mut outcomes);
    let results = Results {
        label: options.label.clone(),
        runtime: runner.facts.name.clone(),
        version: runner.facts.version.clone(),
        nri: runner.facts.nri.clone(),
        engine: runner.driver.version(),
        outcomes,
    };
    if let Some(path) = &options.json {
        results.write(path)?;
    }
    let failed = results.count(Status::Fail);
    let summary = format!(
        "{} ok, {failed} failed, {} differ on purpose, {} not supported\n",
        results.count(Status::Pass),
        results.count(Status::Deliberate),
        results.count(Status::Unsupported)
    );
    Ok((table(std::slice::from_ref(&results)) + &summary, u8::from(failed > 0)))
}

/// Reports that a case has ended: a run takes minutes.
fn progress(outcome: &Outcome) {
    // Progress is written even without a reader.
    let _ = writeln!(stderr(), "{:?} {}", outcome.status, outcome.case);
}

fn driver(options: &RunOptions, bundles: &Path) -> Result<Box<dyn Driver>, Error> {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let client = words(&options.client);
    Ok(match options.driver {
        Kind::Oci => {
            let missing = Error::Option { driver: "oci", option: "--rootfs" };
            let rootfs = options.rootfs.clone().ok_or(missing)?;
            Box::new(Oci { client, rootfs, bundles: bundles.to_owned() })
        }
        Kind::Docker => {
            let (image, options) = (options.image.clone(), words(&options.create));
            Box::new(Docker { client, image, options })
        }
        Kind::Cri => Box::new(Cri {
            client,
            image: options.image.clone(),
            handler: options.handler.clone(),
            cgroup_parent: options.cgroup_parent.clone(),
            state: Default::default(),
        }),
        Kind::Script => Box::new(Script { client }),
    })
}
