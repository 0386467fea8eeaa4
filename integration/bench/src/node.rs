//! An installation for one series: configuration, state directory, plugins and `nrid`.

use crate::bench::Bench;
use nri_bench::programs::run;
use nri_integration::wait_until;
use serde_json::Value;
use std::{
    fs,
    io::Write,
    os::unix::fs::{DirBuilderExt, symlink},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// One installation with directories of its own. Dropping this value stops `nrid` and the plugins.
#[derive(Debug)]
pub(crate) struct Node {
    dir: TempDir,
    programs: PathBuf,
    plugins: Vec<Child>,
}

impl Node {
    /// Creates the directories and the configuration, which names the real runtime, as the packaged
    /// configuration does.
    pub(crate) fn new(bench: &Bench, runtime: &Path) -> Self {
        // A short path, because the path of a socket is limited to 107 bytes.
        let dir = tempfile::Builder::new().prefix("nri-").tempdir().expect("TMPDIR is writable");
        let node = Self { dir, programs: bench.options.programs.clone(), plugins: Vec::new() };
        for name in ["plugins", "conf.d", "root", "bundles"] {
            fs::create_dir(node.path(name)).expect("the directory is writable");
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(node.path("s"))
            .expect("the directory is writable");
        let text = format!(
            "state_dir = {:?}\nplugin_path = {:?}\nplugin_config_path = {:?}\n\n\
             [runtime]\npath = {runtime:?}\n",
            node.path("s"),
            node.path("plugins"),
            node.path("conf.d")
        );
        fs::write(node.config(), text).expect("the directory is writable");
        node
    }

    /// Adds sections to the configuration.
    pub(crate) fn configure(&self, sections: &str) {
        let file = fs::OpenOptions::new().append(true).open(self.config());
        let mut file = file.expect("the configuration exists");
        file.write_all(sections.as_bytes()).expect("the directory is writable");
    }

    /// Path of a file of this node.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    /// Returns a command of `program` with the environment of this node.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin");
        command.env("NRI_CONTAINER_RUNTIME_CONFIG", self.config());
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Path of a program under test.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name)
    }

    /// Path of the wrapper.
    pub(crate) fn wrapper(&self) -> PathBuf {
        self.program("nri-container-runtime")
    }

    /// Installs a plugin that `nrid` launches.
    pub(crate) fn launch(&self, name: &str, program: &Path, config: &str) {
        fs::write(self.path("conf.d").join(format!("{name}.conf")), config)
            .expect("the directory is writable");
        symlink(program, self.path("plugins").join(name)).expect("the directory is writable");
    }

    fn ctl(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.program("nrictl"));
        command.args(arguments);
        command
    }

    /// Starts `nrid`.
    pub(crate) fn start(&self) {
        run(&mut self.ctl(&["start"]));
    }

    /// Starts `nrid` as on Linux before 6.15, where pidfds do not report exit codes.
    pub(crate) fn start_before_6_15(&self) {
        let ctl = self.ctl(&["start"]);
        // Beside the harness: the programs under test may be those of another directory.
        let launcher = nri_integration::program_dir().join("before-6-15");
        let mut command = self.command(&launcher);
        run(command.arg(ctl.get_program()).args(ctl.get_args()));
    }

    /// Stops `nrid` and waits for its end.
    pub(crate) fn stop(&self) {
        let pid = self.nrid_pid();
        run(&mut self.ctl(&["stop"]));
        let process = format!("/proc/{pid}");
        wait_until("the end of nrid", || (!Path::new(&process).exists()).then_some(()));
    }

    fn status(&self) -> Value {
        let output = self.ctl(&["status", "--json"]).stdout(Stdio::piped()).output();
        let output = output.expect("nrictl can be started").stdout;
        serde_json::from_slice(&output).expect("nrictl prints JSON")
    }

    /// Process id of `nrid`.
    pub(crate) fn nrid_pid(&self) -> u32 {
        let pid = self.status()["status"]["pid"].as_u64().expect("nrid runs");
        pid.try_into().expect("the id of a process has 32 bits")
    }

    /// Starts external plugins, and waits until they are active.
    pub(crate) fn connect(&mut self, plugin: &Path, count: usize) {
        self.plugins.extend(start_plugins(plugin, count, &self.path("s/nri.sock"), 0));
        wait_until("external plugins", || {
            let status = self.status();
            let plugins = status["status"]["plugins"].as_array().map_or(&[][..], Vec::as_slice);
            let active = plugins.iter().filter(|plugin| plugin["state"] == "active").count();
            (active == count).then_some(())
        });
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.ctl(&["stop"]).stderr(Stdio::null()).status();
        kill_all(&mut self.plugins);
    }
}

/// Starts external Go plugins, each of which delays its replies by `milliseconds`.
pub(crate) fn start_plugins(
    plugin: &Path,
    count: usize,
    socket: &Path,
    milliseconds: u32,
) -> Vec<Child> {
    let start = |n: usize| {
        let mut command = Command::new(plugin);
        command.args(["-idx", &format!("{n:02}"), "-name", &format!("p{n}"), "-socket"]);
        command.arg(socket).args(["-delay", &format!("{milliseconds}ms")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"))
    };
    // A plugin index has two digits.
    (10..10 + count).map(start).collect()
}

/// Kills processes and waits for their end.
pub(crate) fn kill_all(children: &mut [Child]) {
    for child in children {
        let _ = child.kill();
        let _ = child.wait();
    }
}
