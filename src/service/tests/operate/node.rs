//! A directory with a configuration, plugins and an `nrid` of its own.

use nri_control::{Client, Reply, Request, Status};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Node(TempDir);

impl Node {
    /// With these lines in its configuration, and nothing that runs.
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

    /// Writes the configuration anew.
    pub(crate) fn configure(&self, more: &str) {
        // The shared socket is the machine's.
        self.configure_with(more, Path::new(""));
    }

    pub(crate) fn configure_with(&self, more: &str, socket: &Path) {
        let places = format!(
            "plugin_path = {:?}\nplugin_config_path = {:?}\nsocket_path = {socket:?}\n\
             start_timeout = 20\n",
            self.plugins(),
            self.path("conf.d")
        );
        let new = self.path("config.new");
        fs::write(&new, places + more).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o644)).unwrap();
        fs::rename(new, self.config()).unwrap();
    }

    /// A plugin that is launched, and hears of everything.
    pub(crate) fn plugin(&self, name: &str) {
        std::os::unix::fs::symlink(example("logger"), self.plugins().join(name)).unwrap();
    }

    /// `nrid` of this program, in the foreground, that answers.
    pub(crate) fn start_program(&self, program: &Path) -> Nrid {
        let mut command = Command::new(program);
        command.arg("--config").arg(self.config()).arg("--state-dir").arg(self.state_dir());
        // No pipe: nobody reads it while nrid runs.
        let said = self.path("said");
        let file = fs::File::create(&said).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let nrid = Nrid { child: command.spawn().unwrap(), said };
        wait_until("nrid", || Client::connect(&self.socket()).ok());
        nrid
    }

    pub(crate) fn start(&self) -> Nrid {
        self.start_program(Path::new(env!("CARGO_BIN_EXE_nrid")))
    }

    pub(crate) fn ask(&self, request: &Request) -> Reply {
        let client = Client::connect(&self.socket()).unwrap();
        client.set_timeout(Some(PATIENCE)).unwrap();
        client.call(request, &[]).unwrap()
    }

    pub(crate) fn status(&self) -> Box<Status> {
        match self.ask(&Request::Status) {
            Reply::Status(status) => status,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn stop(&self) {
        let client = Client::connect(&self.socket()).unwrap();
        client.set_timeout(Some(PATIENCE)).unwrap();
        client.call(&Request::Stop, &[]).unwrap();
        assert!(client.wait_closed());
    }
}

/// A program that does not outlive its test.
pub(crate) struct Nrid {
    child: Child,
    said: PathBuf,
}

impl Nrid {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// What it said until its end, which was a clean one.
    pub(crate) fn ended(mut self) -> String {
        let status = wait_until("its end", || self.child.try_wait().unwrap());
        let said = fs::read_to_string(&self.said).unwrap();
        assert!(status.success(), "{said}");
        said
    }
}

impl Drop for Nrid {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An example of the SDK, which `cargo build --examples` puts beside the programs.
pub(crate) fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_nrid")).with_file_name("examples").join(name);
    assert!(
        path.is_file(),
        "{} is missing: `cargo build -p nri-plugin --examples` makes it",
        path.display()
    );
    path
}

pub(crate) fn wait_until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
