//! The plugin of the tutorial, and that of the template: made of these documents alone, outside of
//! the workspace.

use crate::{enter, find_program, programs, wait_until};
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
};

/// Root of the repository.
fn repository() -> PathBuf {
    let integration = Path::new(env!("CARGO_MANIFEST_DIR"));
    integration.parent().expect("integration is in the repository").to_owned()
}

/// Builds and tests the crate in this directory with the versions of the workspace's `Cargo.lock`,
/// and returns the directory of its programs. The libraries that it needs are kept below `target`.
fn build(dir: &Path) -> PathBuf {
    fs::copy(repository().join("Cargo.lock"), dir.join("Cargo.lock")).expect("the copy");
    let target = programs::target_dir().join("integration/plugins");
    let cargo = std::env::var_os("CARGO").map(PathBuf::from).or_else(|| find_program("cargo"));
    for verb in ["build", "test"] {
        let mut command = Command::new(cargo.as_ref().expect("cargo is installed"));
        command.args([verb, "--quiet", "--offline"]).current_dir(dir);
        command.env("CARGO_TARGET_DIR", &target).env("CARGO_PROFILE_DEV_DEBUG", "false");
        // Those of the workspace must not apply.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_MANIFEST_DIR").stdout(Stdio::null());
        let status = command.status().expect("cargo runs");
        assert!(status.success(), "cargo {verb} in {}: {status}", dir.display());
    }
    target.join("debug")
}

/// Returns the code blocks of a document in this language.
fn blocks<'a>(document: &'a str, language: &str) -> Vec<&'a str> {
    let start = format!("```{language}\n");
    let blocks = document.split(&start[..]).skip(1);
    blocks.filter_map(|rest| rest.split("```").next()).collect()
}

fn tutorial() -> String {
    fs::read_to_string(repository().join("docs/plugin-tutorial.md")).expect("the tutorial exists")
}

/// Makes the plugin of `docs/plugin-tutorial.md` in a directory outside of the workspace, runs its
/// tests, and returns the program. Only the path of the SDK is adapted. The program has less than
/// 30 lines.
///
/// # Panics
/// The document does not lead to a plugin.
pub fn tutorial_plugin() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let document = tutorial();
        let manifest = blocks(&document, "toml")[0];
        let sdk = "../nri-container-runtime/src/plugin";
        assert!(manifest.contains(sdk), "{manifest}");
        let manifest = manifest.replace(sdk, &repository().join("src/plugin").to_string_lossy());
        let program = blocks(&document, "rust,no_run")[0];
        assert!(program.lines().count() < 30, "{program}");
        let tests = blocks(&document, "rust")[0];
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::create_dir(dir.path().join("src")).expect("the test directory is writable");
        fs::write(dir.path().join("Cargo.toml"), manifest).expect("the manifest is written");
        fs::write(dir.path().join("src/main.rs"), format!("{program}\n{tests}"))
            .expect("the program is written");
        build(dir.path()).join("welcome")
    })
}

/// Copies the template of plugins as the tutorial says, with the name `my-plugin`, runs its tests,
/// and returns the program.
///
/// # Panics
/// The template does not lead to a plugin.
pub fn template_plugin() -> PathBuf {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let document = tutorial();
    let commands = blocks(&document, "sh").into_iter().find(|b| b.contains("$SDK"));
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", commands.expect("commands for a copy by hand")]);
    let status = shell.env("SDK", repository()).current_dir(dir.path()).status();
    assert!(status.expect("sh runs").success());
    let dir = dir.path().join("my-plugin");
    for file in ["Cargo.toml", "README.md", "plugin.service"] {
        let text = fs::read_to_string(dir.join(file)).expect("the file is copied");
        assert!(!text.contains("{{") && text.contains("my-plugin"), "{file}: {text}");
    }
    build(&dir).join("my-plugin")
}

/// A plugin that a newcomer starts: an external one, with settings in its environment only.
/// Dropping this value kills the plugin.
#[derive(Debug)]
pub struct Newcomer {
    child: Child,
    err: PathBuf,
}

impl Newcomer {
    /// Starts the plugin with index 50. It need not be able to connect yet. Its stderr goes to a
    /// file in `dir`.
    ///
    /// # Panics
    /// The program cannot be started.
    pub fn start(program: &Path, socket: &Path, dir: &Path) -> Self {
        let err = dir.join("newcomer.err");
        let mut command = enter::command(program);
        command.env("NRI_PLUGIN_IDX", "50").env("NRI_PLUGIN_SOCKET", socket);
        command.env("NRI_PLUGIN_LOG", "debug").stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(&err).expect("the test directory is writable"));
        Self { child: command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}")), err }
    }

    /// Messages of the plugin.
    pub fn messages(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    /// Waits until the plugin has been synchronized this many times.
    pub fn wait_for_synchronizations(&self, times: usize) {
        wait_until(format_args!("{times} synchronizations"), || {
            (self.messages().matches(": synchronized\n").count() >= times).then_some(())
        });
    }

    /// Ends the plugin by SIGTERM.
    ///
    /// # Panics
    /// The plugin is not a process any more.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let pid = pid.expect("the id of a process");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("the plugin runs");
        let child = &mut self.child;
        wait_until("the exit of a plugin", || child.try_wait().expect("wait for the child process"))
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
