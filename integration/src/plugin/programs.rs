//! Plugins of the tests: the example plugin of the Rust SDK, and a Go plugin that uses upstream's
//! stub.

use crate::{Journal, call, programs, skip, wait_until};
use serde_json::Value;
use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
};

/// A plugin program; the variant determines the format of its configuration.
#[derive(Debug, Clone)]
pub enum Program {
    /// `src/plugin/examples/adjust/main.rs`; TOML.
    Adjust,
    /// `integration/plugins/go`; JSON.
    Go(PathBuf),
}

/// Returns the Go plugin, which the first call builds; records a skip if Go is not installed.
/// `NRI_TEST_GOSTUB` is the path of a plugin that is already built, for virtual machines in which a
/// build takes long.
///
/// # Panics
/// The build fails.
pub fn go_plugin(test: &str) -> Option<Program> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let given = || std::env::var_os("NRI_TEST_GOSTUB").map(PathBuf::from);
    built(test, BUILT.get_or_init(|| given().or_else(|| build("gostub")))).map(Program::Go)
}

/// Returns the program of NRI v0.1 that is made with the Go module of that version, which the first
/// call builds; records a skip if Go is not installed.
///
/// # Panics
/// The build fails.
pub fn v010_plugin(test: &str) -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    built(test, BUILT.get_or_init(|| build("clearquota")))
}

/// Records a skip if the program was not built.
fn built(test: &str, program: &Option<PathBuf>) -> Option<PathBuf> {
    if program.is_none() {
        skip(test, "no go toolchain");
    }
    program.clone()
}

/// Builds a program of `plugins/build.sh`; `None` if Go is not installed.
fn build(name: &str) -> Option<PathBuf> {
    let dir = programs::target_dir().join("integration");
    std::fs::create_dir_all(&dir).expect("target is writable");
    let mut build = Command::new(programs::script("plugins/build.sh"));
    // With CI set, build.sh would fail without Go; `skip` reports that instead.
    build.arg(&dir).arg(name).env_remove("CI");
    // A build may exceed the timeout of `call::run`.
    let built = build.stderr(Stdio::inherit()).output().expect("build.sh runs");
    assert!(built.status.success(), "build.sh: {}", built.status);
    (!built.stdout.starts_with(b"skipped")).then(|| dir.join(name))
}

impl Program {
    /// Path of the program.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::Adjust => programs::built("examples/adjust"),
            Self::Go(path) => path.clone(),
        }
    }

    /// Adds the path of the journal to a configuration.
    pub(crate) fn configuration(&self, config: &str, journal: &Path) -> String {
        match self {
            Self::Adjust => format!("log = {journal:?}\n{config}"),
            Self::Go(_) => {
                let mut value: Value =
                    serde_json::from_str(config).unwrap_or_else(|e| panic!("{e}: {config}"));
                value["log"] = journal.to_str().expect("paths of tests are UTF-8").into();
                value.to_string()
            }
        }
    }
}

/// An external plugin, which connects to a socket. Dropping this value kills the plugin.
#[derive(Debug)]
pub struct External {
    child: Child,
    /// Journal of the plugin.
    pub journal: Journal,
    err: PathBuf,
}

impl External {
    /// Starts a plugin and waits until it is synchronized. The paths of its files begin with
    /// `files`; `options` are further arguments.
    pub(crate) fn start(
        program: &Program,
        name: &str,
        options: &[&str],
        config: &str,
        socket: &Path,
        files: &Path,
    ) -> Self {
        let (index, base) = name.split_once('-').expect("NN-name");
        let with_extension =
            |extension: &str| PathBuf::from(format!("{}.{extension}", files.display()));
        let (log, file) = (with_extension("journal"), with_extension("external.conf"));
        let dir = files.parent().expect("the files are in a directory");
        std::fs::write(&file, program.configuration(config, &log))
            .expect("the test directory is writable");
        let mut command = Command::new(program.path());
        command.args(["--idx", index, "--name", base, "--socket"]).arg(socket);
        command.arg("--config").arg(&file).arg("--log").arg(&log).args(options);
        let (_, err) = call::redirect(&mut command, dir);
        command.stdin(Stdio::piped());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));
        let journal = Journal::new(&log);
        wait_until(format_args!("{name} to be synchronized"), || {
            if let Ok(Some(status)) = child.try_wait() {
                panic!("{name}: {status}: {}", std::fs::read_to_string(&err).unwrap_or_default());
            }
            journal.entries().iter().any(|e| e["event"] == "Synchronize").then_some(())
        });
        Self { child, journal, err }
    }

    /// Whether the plugin still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Waits until the plugin exits, and returns its exit status.
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        let child = &mut self.child;
        wait_until("the exit of a plugin", || child.try_wait().expect("wait for the child process"))
    }

    /// Stderr of the plugin.
    pub fn err(&self) -> String {
        std::fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Sends a command to the Go plugin (see its `main.go`), or to the example of the SDK if it
    /// runs with `--updates`.
    pub fn send(&mut self, command: &Value) {
        let stdin = self.child.stdin.as_mut().expect("stdin is a pipe");
        writeln!(stdin, "{command}").expect("the plugin reads its stdin");
    }

    /// Kills the plugin and waits for its end.
    pub fn stop(mut self) {
        self.kill();
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for External {
    fn drop(&mut self) {
        self.kill();
    }
}
