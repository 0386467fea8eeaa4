//! A place to call the wrapper in: own directories, own configuration, a fake runtime, an `nrid` by
//! script.

use nri_control::{CONTROL_SOCKET, Finished, PROTOCOL, Reply, Request, Substitute, Versioned};
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

/// Directories are removed with it.
pub(crate) struct Lab {
    pub(crate) dir: TempDir,
    /// Where the wrapper is, alone: on the file system of the target directory, since it is a hard
    /// link.
    programs: TempDir,
    pub(crate) fake: FakeRuntime,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        // A link and not a copy: a file that was open for writing when another thread forked could
        // not be executed.
        fs::hard_link(
            program("nri-container-runtime"),
            programs.path().join("nri-container-runtime"),
        )
        .unwrap();
        let fake = FakeRuntime::install(&dir.path().join("bin"), "runc").unwrap();
        for name in ["bundle", "state"] {
            fs::create_dir(dir.path().join(name)).unwrap();
        }
        // The working directory is a bundle, too: the one of who names none.
        for document in ["bundle/config.json", "config.json"] {
            fs::write(dir.path().join(document), "{}").unwrap();
        }
        let lab = Self { dir, programs, fake };
        lab.configure("");
        lab
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn wrapper(&self) -> PathBuf {
        self.programs.path().join("nri-container-runtime")
    }

    /// Beside the wrapper: another name of it, or a program of ours.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.programs.path().join(name)
    }

    /// Writes the configuration: the state directory, then `more`.
    pub(crate) fn configure(&self, more: &str) {
        fs::write(
            self.path("config.toml"),
            format!("state_dir = {:?}\n{more}", self.text("state")),
        )
        .unwrap();
    }

    /// `program` with `arguments` in an environment that leads to this lab.
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

    /// The real runtime was not called.
    pub(crate) fn check_not_called(&self) {
        assert_eq!(self.fake.calls(), Vec::<Value>::new());
    }

    /// A shell command that makes something of the process before it becomes `program`, such as
    /// `umask 027` or `exec 5<file`.
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

/// argv of a call, as text.
pub(crate) fn argv(call: &Value) -> Vec<String> {
    let argv = call["argv"].as_array().unwrap();
    argv.iter().map(|a| a.as_str().map_or_else(|| a.to_string(), str::to_owned)).collect()
}

/// What a process wrote to stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the scripted `nrid` does with a request.
pub(crate) enum Act {
    Answer(Reply),
    /// Closes the connection.
    HangUp,
}

impl From<Reply> for Act {
    fn from(reply: Reply) -> Self {
        Self::Answer(reply)
    }
}

/// A request and how many descriptors came with it.
pub(crate) type Heard = (Request, usize);

/// An `nrid` by script, on the lab's control socket.
pub(crate) struct Server {
    socket: PathBuf,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Server {
    pub(crate) fn start<A: Into<Act>>(
        lab: &Lab,
        script: impl Fn(&Request) -> A + Send + Sync + 'static,
    ) -> Self {
        let socket = lab.path("state").join(CONTROL_SOCKET);
        let listener = UnixListener::bind(&socket).unwrap();
        let heard = Arc::new(Mutex::new(Vec::new()));
        let (noting, script) = (Arc::clone(&heard), Arc::new(script));
        // It ends when its socket is removed and connected to no more; a test process does not live
        // long.
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (noting, script) = (Arc::clone(&noting), Arc::clone(&script));
                std::thread::spawn(move || serve(&stream.unwrap(), &noting, |r| script(r).into()));
            }
        });
        Self { socket, heard }
    }

    /// Lets everything through as it was called.
    pub(crate) fn proceeding(lab: &Lab) -> Self {
        Self::start(lab, |request| match request {
            Request::Begin(_) => Reply::Proceed(Substitute::default()),
            _ => Reply::Done,
        })
    }

    pub(crate) fn refusing(lab: &Lab, message: &str) -> Self {
        let message = message.to_owned();
        Self::start(lab, move |_| Reply::Refused { message: message.clone() })
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.heard.lock().unwrap().clone()
    }

    /// What followed the begin, if it did.
    pub(crate) fn finished(&self) -> Option<Finished> {
        self.heard()
            .into_iter()
            .find_map(|(r, _)| if let Request::Finished(f) = r { Some(f) } else { None })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.socket);
    }
}

fn serve(stream: &UnixStream, heard: &Mutex<Vec<Heard>>, script: impl Fn(&Request) -> Act) {
    while let Ok((payload, fds)) = nri_control::receive(stream) {
        let request: Versioned<Request> = serde_json::from_slice(&payload).unwrap();
        assert_eq!(request.protocol, PROTOCOL);
        heard.lock().unwrap().push((request.message.clone(), fds.len()));
        match script(&request.message) {
            Act::Answer(message) => {
                let reply = serde_json::to_vec(&Versioned::ours(message)).unwrap();
                let _ = nri_control::send(stream, &reply, &[]);
            }
            Act::HangUp => return,
        }
    }
}

/// A child that is killed with the test.
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

/// A script in which every verb does the same.
pub(crate) fn always(step: Value) -> Value {
    json!({ "*": step })
}
