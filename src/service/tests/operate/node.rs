//! [`Node`], the fixture of these tests: a directory with configuration, plugins and state of one
//! `nrid`.

use nri_control::{Client, Reply, Request, Status};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Time limit of every wait in these tests.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// The directory of one `nrid`, removed when it is dropped.
pub(crate) struct Node(TempDir);

impl Node {
    /// Creates the directory, with these lines in the configuration. Does not start `nrid`.
    pub(crate) fn new(config: &str) -> Self {
        let node = Self(tempfile::tempdir().unwrap());
        for name in ["s", "plugins", "conf.d"] {
            fs::create_dir(node.path(name)).unwrap();
        }
        fs::set_permissions(node.path("s"), fs::Permissions::from_mode(0o700)).unwrap();
        node.configure(config);
        node
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.path("config.toml")
    }

    pub(crate) fn plugins(&self) -> PathBuf {
        self.path("plugins")
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.path("s")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.state_dir().join("control.sock")
    }

    /// Replaces the configuration, with these lines added to the fixture's own. `socket_path` is
    /// empty, because its default is a path outside of the test's directory.
    pub(crate) fn configure(&self, lines: &str) {
        self.configure_with(lines, Path::new(""));
    }

    /// Replaces the configuration, with a second socket for plugins.
    pub(crate) fn configure_with(&self, lines: &str, socket: &Path) {
        let base = format!(
            "plugin_path = {:?}\nplugin_config_path = {:?}\nsocket_path = {socket:?}\n\
             start_timeout = 20\n",
            self.plugins(),
            self.path("conf.d")
        );
        let new = self.path("config.new");
        fs::write(&new, base + lines).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(new, self.config()).unwrap();
    }

    /// Adds a plugin that `nrid` launches, and that subscribes to all events.
    pub(crate) fn plugin(&self, name: &str) {
        std::os::unix::fs::symlink(example("logger"), self.plugins().join(name)).unwrap();
    }

    /// Starts a program as `nrid` in the foreground, and waits until it accepts connections.
    pub(crate) fn start_program(&self, program: &Path) -> Nrid {
        self.start_command(Command::new(program))
    }

    /// Starts `nrid` with limits of open files. `limits` are arguments of `ulimit`.
    pub(crate) fn start_limited(&self, limits: &str) -> Nrid {
        let mut command = Command::new("sh");
        // What the test inherited from its caller, such as a job server, would count as well.
        let close: String = (3..10).map(|n| format!(" {n}>&-")).collect();
        let script = format!("ulimit {limits} && exec \"$0\" \"$@\"{close}");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_nrid"));
        self.start_command(command)
    }

    /// Adds the arguments of `nrid` to a command, starts it, and waits as [`Node::start_program`]
    /// does.
    pub(crate) fn start_command(&self, mut command: Command) -> Nrid {
        command.arg("--config").arg(self.config()).arg("--state-dir").arg(self.state_dir());
        // The output goes to a file: nothing reads it while nrid runs, so a pipe could fill up.
        let output = self.path("output");
        let file = fs::File::create(&output).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let nrid = Nrid { child: command.spawn().unwrap(), output };
        wait_until("nrid to listen", || Client::connect(&self.socket()).ok());
        nrid
    }

    pub(crate) fn start(&self) -> Nrid {
        self.start_program(Path::new(env!("CARGO_BIN_EXE_nrid")))
    }

    pub(crate) fn call(&self, request: &Request) -> Reply {
        let client = Client::connect(&self.socket()).unwrap();
        client.set_timeout(Some(TIMEOUT)).unwrap();
        client.call(request, &[]).unwrap()
    }

    pub(crate) fn status(&self) -> Box<Status> {
        match self.call(&Request::Status) {
            Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn stop(&self) {
        let client = Client::connect(&self.socket()).unwrap();
        client.set_timeout(Some(TIMEOUT)).unwrap();
        client.call(&Request::Stop, &[]).unwrap();
        assert!(client.wait_closed());
    }
}

/// A running `nrid`, killed when it is dropped.
pub(crate) struct Nrid {
    child: Child,
    output: PathBuf,
}

impl Nrid {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the output up to now.
    pub(crate) fn output(&self) -> String {
        fs::read_to_string(&self.output).unwrap()
    }

    /// Waits until `nrid` exits, with success, and returns its output.
    pub(crate) fn wait_for_exit(mut self) -> String {
        let status = wait_until("nrid to end", || self.child.try_wait().unwrap());
        let output = fs::read_to_string(&self.output).unwrap();
        assert!(status.success(), "{output}");
        output
    }
}

impl Drop for Nrid {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the path of an example plugin of the SDK, which `cargo build --examples` puts beside the
/// programs.
pub(crate) fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("examples").join(name);
    assert!(
        path.is_file(),
        "{} is missing: run `cargo build -p nri-plugin --examples`",
        path.display()
    );
    path
}

/// Removes a directory in which a running `nrid` may create a file at the same time.
pub(crate) fn remove_directory(path: &Path) {
    let removed = wait_until("the removal of a directory", || match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => None,
        result => Some(result),
    });
    removed.unwrap();
}

/// Waits until the condition returns a value. `what` names the awaited event.
pub(crate) fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "timeout while waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
