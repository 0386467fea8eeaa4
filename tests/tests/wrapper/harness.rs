//! Harness for calls of the wrapper: directories, configuration, a fake runtime, a scripted `nrid`.

use nri_control::{Finished, PROTOCOL, Reply, Request, Substitute, Versioned};
use nri_files::{CONTROL_SOCKET, published_file};
use nri_locate::{Environment, LoadedConfig};
use nri_tests::fake_runtime::{FakeRuntime, program};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

/// Directories and programs of a test. They are removed on drop.
pub(crate) struct WrapperHarness {
    pub(crate) dir: TempDir,
    /// Directory of the wrapper. It is in the target directory, because the wrapper is a hard link
    /// to the built program, which requires the same file system.
    programs: TempDir,
    pub(crate) fake: FakeRuntime,
}

impl WrapperHarness {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // Not a copy: if another thread forks while a copy is open for writing, the child keeps it
        // open, and executing the copy fails with ETXTBSY.
        fs::hard_link(
            program("nri-container-runtime"),
            programs.path().join("nri-container-runtime"),
        )
        .unwrap();
        let fake = FakeRuntime::install(&dir.path().join("bin"), "runc").unwrap();
        for name in ["bundle", "state"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        // The working directory is also a bundle, for calls without --bundle.
        for config in ["bundle/config.json", "config.json"] {
            fs::write(dir.path().join(config), "{}").unwrap();
        }
        let harness = Self { dir, programs, fake };
        harness.configure("");
        harness
    }

    /// Path of a file in the working directory of calls.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// [`Self::path`] as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn wrapper(&self) -> PathBuf {
        self.programs.path().join("nri-container-runtime")
    }

    /// Path of a file beside the wrapper.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.programs.path().join(name)
    }

    /// Writes the configuration: the state directory, then `more`. Publishes what calls need of it,
    /// as `nrid` does, if it is valid and the tests run as root; otherwise, calls read the file.
    pub(crate) fn configure(&self, more: &str) {
        self.save(more);
        let loaded =
            LoadedConfig::read(Some(&self.path("config.toml")), &Environment::default(), |_| true);
        if loaded.problem.is_none() && rustix::process::geteuid().is_root() {
            let settings = loaded.call_settings(&Environment::default());
            settings.publish(&self.path("config.toml")).unwrap();
        } else {
            self.unpublish();
        }
    }

    /// Writes the configuration, of which nothing is published yet.
    pub(crate) fn save(&self, more: &str) {
        let text = format!("state_dir = {:?}\n{more}", self.text("state"));
        fs::write(self.path("config.toml"), text).unwrap();
    }

    /// Removes what is published, as a boot does.
    pub(crate) fn unpublish(&self) {
        let _ = fs::remove_file(published_file(&self.path("config.toml")));
    }

    /// Returns a call of `program` in the environment of this harness.
    pub(crate) fn command_of(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", self.path("bin"))
            .env(nri_locate::CONFIG_ENV, self.path("config.toml"))
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(&self.wrapper(), arguments)
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Checks that the real runtime was not called.
    pub(crate) fn check_not_called(&self) {
        assert_eq!(self.fake.calls(), Vec::<Value>::new());
    }

    /// Returns a call of a shell that runs `preparation`, such as `umask 027` or `exec 5<file`, and
    /// then executes `program` in the same process.
    pub(crate) fn through_shell(
        &self,
        program: &Path,
        preparation: &str,
        arguments: &[&str],
    ) -> Command {
        let mut shell = self.command_of(
            Path::new("/bin/sh"),
            &["-c", &format!("{preparation}\nexec \"$@\""), "sh"],
        );
        shell.arg(program).args(arguments);
        shell
    }
}

impl Drop for WrapperHarness {
    fn drop(&mut self) {
        self.unpublish();
    }
}

/// Returns argv of a call as text.
pub(crate) fn argv(call: &Value) -> Vec<String> {
    let argv = call["argv"].as_array().unwrap();
    argv.iter().map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)).collect()
}

/// Returns the text that a process wrote to stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Reaction of the scripted `nrid` to a request.
pub(crate) enum Reaction {
    Reply(Reply),
    /// Closes the connection.
    Close,
}

impl From<Reply> for Reaction {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

/// A request, and the number of descriptors that were sent with it.
pub(crate) type Received = (Request, usize);

/// A scripted `nrid` on the control socket of a harness.
pub(crate) struct Server {
    socket: PathBuf,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Server {
    /// Starts a server that performs the reaction of `script` to each request.
    pub(crate) fn start<A: Into<Reaction>>(
        harness: &WrapperHarness,
        script: impl Fn(&Request) -> A + Send + Sync + 'static,
    ) -> Self {
        let socket = harness.path("state").join(CONTROL_SOCKET);
        let listener = UnixListener::bind(&socket).unwrap();
        let received = Arc::new(Mutex::new(Vec::new()));
        let (record, script) = (Arc::clone(&received), Arc::new(script));
        // The thread runs until the test process exits.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (record, script) = (Arc::clone(&record), Arc::clone(&script));
                std::thread::spawn(move || serve(&stream.unwrap(), &record, |r| script(r).into()));
            }
        });
        Self { socket, received }
    }

    /// Starts a server that lets every verb proceed unchanged.
    pub(crate) fn proceeding(harness: &WrapperHarness) -> Self {
        Self::start(harness, |request| match request {
            Request::Begin(_) => Reply::Proceed(Substitute::default()),
            _ => Reply::Done,
        })
    }

    /// Starts a server that refuses every request.
    pub(crate) fn refusing(harness: &WrapperHarness, message: &str) -> Self {
        let message = message.to_owned();
        Self::start(harness, move |_| Reply::Refused { message: message.clone() })
    }

    /// Returns all requests so far.
    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    /// Forgets all requests so far.
    pub(crate) fn clear(&self) {
        self.received.lock().unwrap().clear();
    }

    /// Returns the first finished message, if the wrapper sent one.
    pub(crate) fn finished(&self) -> Option<Finished> {
        self.received()
            .into_iter()
            .find_map(|(r, _)| if let Request::Finished(f) = r { Some(f) } else { None })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn serve(
    stream: &UnixStream,
    received: &Mutex<Vec<Received>>,
    script: impl Fn(&Request) -> Reaction,
) {
    while let Ok((payload, fds)) = nri_control::receive(stream) {
        let request: Versioned<Request> = serde_json::from_slice(&payload).unwrap();
        assert_eq!(request.protocol, PROTOCOL);
        received.lock().unwrap().push((request.message.clone(), fds.len()));
        match script(&request.message) {
            Reaction::Reply(message) => {
                let reply = serde_json::to_vec(&Versioned::ours(message)).unwrap();
                let _ = nri_control::send(stream, &reply, &[]);
            }
            Reaction::Close => return,
        }
    }
}

/// A child process that is killed on drop.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }

    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a script with the same step for every verb.
pub(crate) fn always(step: Value) -> Value {
    json!({ "*": step })
}
