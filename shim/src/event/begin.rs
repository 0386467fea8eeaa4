//! The `begin` message, which the wrapper sends to `nrid` before a verb.

use super::policy::VerbPolicy;
use crate::{args::verb_args::VerbArgs, error::Error, invocation::Invocation};
use nri_control::{Begin, Verb};
use nri_files::OsText;
use nri_locate::{HOOK, absolute, find_own_program, working_dir};
use rustix::{
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

const CONFIG_JSON: &str = "config.json";

/// An open bundle directory.
#[derive(Debug)]
pub(crate) struct OpenBundle {
    path: PathBuf,
    pub(crate) fd: OwnedFd,
}

impl OpenBundle {
    /// Opens the bundle directory. Returns `None` if the verb has no bundle.
    pub(crate) fn open(verb: Verb, args: &VerbArgs) -> Result<Option<Self>, Error> {
        if !verb.has_bundle() {
            return Ok(None);
        }
        let path = bundle_path(args);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(fd) => Ok(Some(Self { path, fd })),
            Err(e) => Err(Error::Bundle(e.into(), path)),
        }
    }
}

/// Whether the bundle or its `config.json` does not exist, so that no container can be created.
pub(crate) fn is_bundle_missing(verb: Verb, args: &VerbArgs) -> bool {
    if !verb.has_bundle() {
        return false;
    }
    let bundle = bundle_path(args);
    let config = bundle.join(config_name(args.config.as_deref()));
    let missing = |path| matches!(rustix::fs::stat(path), Err(Errno::NOENT | Errno::NOTDIR));
    missing(bundle.as_path()) || missing(config.as_path())
}

/// Builds the `begin` message for `nrid`.
pub(crate) fn message(
    invocation: &Invocation<'_>,
    verb: Verb,
    id: &str,
    args: &VerbArgs,
    runtime: &Path,
    bundle: Option<&OpenBundle>,
    resources: Option<String>,
) -> Begin {
    let Invocation { call, command_line, .. } = invocation;
    let texts = |list: &[OsString]| list.iter().map(OsText::from).collect();
    let root = command_line.root.as_deref().filter(|root| !root.is_empty());
    // `create` needs no hook: the wrapper reports its end.
    let needs_hook = matches!(verb, Verb::Run | Verb::Restore);
    let hook = needs_hook.then(|| find_own_program(HOOK, &call.environment)).flatten();
    Begin {
        verb,
        id: id.to_owned(),
        runtime: runtime.into(),
        root: root.map(|root| (&absolute(Path::new(root))).into()),
        globals: texts(&command_line.globals),
        arguments: texts(&command_line.rest),
        bundle: bundle.map(|b| (&b.path).into()),
        config: bundle.map(|_| (&config_name(args.config.as_deref())).into()),
        cwd: (&working_dir()).into(),
        environment: texts(call.environment.entries()),
        resources,
        flag: args.flag,
        hook: hook.map(|path| (&path).into()),
        follow: matches!(verb, Verb::Start | Verb::Delete),
    }
}

/// Returns the path of the OCI config, relative to the bundle or absolute: crun resolves `--config`
/// in the working directory, except for the name `config.json`, which is the file in the bundle.
fn config_name(given: Option<&OsStr>) -> PathBuf {
    match given {
        Some(path) if path != CONFIG_JSON => absolute(Path::new(path)),
        _ => CONFIG_JSON.into(),
    }
}

/// Returns the bundle directory: `--bundle`, or the working directory.
fn bundle_path(args: &VerbArgs) -> PathBuf {
    absolute(Path::new(args.bundle.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        args::{CommandLine, verb_args},
        call::Call,
        log_line::LogLine,
    };
    use nri_control::{Client, Reply, Request, Substitute, Versioned, receive};
    use nri_files::CONTROL_SOCKET;
    use nri_locate::{BYPASS_ENV, BYPASS_FILE, CONFIG_ENV, LoadedConfig};
    use nri_passthrough::{BorrowedCall, Decision, PathBuffer, decide};
    use std::{
        fs,
        io::{Read, Write},
        mem::ManuallyDrop,
        os::unix::{
            ffi::OsStrExt,
            fs::MetadataExt,
            net::{UnixListener, UnixStream},
        },
        thread::{scope, sleep},
        time::Duration,
    };

    const NAME: &str = "nri-container-runtime";
    const RUNTIME: &str = "/bin/sh";

    /// A directory with a configuration and a control socket.
    struct Node {
        dir: tempfile::TempDir,
        listener: UnixListener,
    }

    impl Node {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let listener = UnixListener::bind(dir.path().join(CONTROL_SOCKET)).unwrap();
            listener.set_nonblocking(true).unwrap();
            let this = Self { dir, listener };
            this.configure("");
            fs::write(this.dir.path().join(CONFIG_JSON), "{}").unwrap();
            this
        }

        fn configure(&self, lines: &str) {
            let state = self.dir.path();
            let text = format!("state_dir = {state:?}\n{lines}\n[runtime]\npath = {RUNTIME:?}\n");
            fs::write(state.join("config"), text).unwrap();
        }

        fn call(&self, line: &str, entries: &[&str]) -> Call {
            let argv = [NAME].into_iter().chain(line.split_whitespace()).map(OsString::from);
            let config = format!("{CONFIG_ENV}={}", self.dir.path().join("config").display());
            let entries = entries.iter().map(OsString::from).chain([config.into()]);
            Call::new(argv.collect(), entries.collect())
        }

        /// Makes the decision before the C library's start, and replies to the request. Returns the
        /// request, if one was sent; whether the wrapper becomes the runtime; and the reply that is
        /// still in the socket.
        fn early(&self, call: &Call, reply: &[u8]) -> (Option<Vec<u8>>, bool, Option<Vec<u8>>) {
            let arguments: Vec<&[u8]> = call.arguments.iter().map(|word| word.as_bytes()).collect();
            let mut path = PathBuffer::default();
            let ((becomes_runtime, sent), request) = scope(|scope| {
                let early = scope.spawn(|| {
                    let environment = call.environment.entries().iter().map(|e| e.as_bytes());
                    let name = NAME.as_bytes();
                    let close = |fd| nix::unistd::close(fd).unwrap();
                    let call = BorrowedCall { name, arguments: &arguments, environment, close };
                    match decide(call, &mut path) {
                        Decision::Runtime(path, sent) => {
                            assert_eq!(path.to_bytes(), RUNTIME.as_bytes());
                            (true, sent)
                        }
                        Decision::Later(sent) => (false, sent),
                    }
                });
                let mut connection = loop {
                    match self.listener.accept() {
                        Ok((connection, _)) => break Some(connection),
                        Err(_) if early.is_finished() => break None,
                        Err(_) => sleep(Duration::from_millis(1)),
                    }
                };
                let request = connection.as_mut().map(|connection| {
                    let (request, fds) = receive(connection).unwrap();
                    self.check(&fds, call);
                    let length = u32::try_from(reply.len()).unwrap().to_be_bytes();
                    connection.write_all(&[&length, reply].concat()).unwrap();
                    request
                });
                (early.join().unwrap(), request)
            });
            let left = sent.map(|sent| receive(&ManuallyDrop::into_inner(sent).into()).unwrap().0);
            (request, becomes_runtime, left)
        }

        /// Checks that exactly `create` sends its bundle.
        fn check(&self, fds: &[OwnedFd], call: &Call) {
            let file_id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
            let sent: Vec<_> = fds
                .iter()
                .map(|fd| fs::File::from(fd.try_clone().unwrap()).metadata().map(file_id).unwrap())
                .collect();
            let is_create = call.arguments.iter().any(|argument| argument == "create");
            let bundle = fs::metadata(self.dir.path()).map(file_id).unwrap();
            assert_eq!(sent, if is_create { vec![bundle] } else { Vec::new() });
        }

        /// Returns the request that the wrapper sends after the C library's start.
        fn late(&self, call: &Call) -> Vec<u8> {
            let command_line = CommandLine::scan(&call.arguments);
            let verb = command_line.event_verb().unwrap();
            let args = verb_args::read(verb, &command_line.rest);
            let loaded = LoadedConfig::read(None, &call.environment);
            assert!(loaded.problem.is_none(), "{:?}", loaded.problem);
            assert_eq!(loaded.state_dir(&call.environment), self.dir.path());
            let log = LogLine::new(&command_line);
            let invocation =
                Invocation { call, command_line: &command_line, loaded: &loaded, log: &log };
            let id = args.id.as_ref().unwrap().to_str().unwrap();
            let bundle = OpenBundle::open(verb, &args).unwrap();
            let bundle = bundle.as_ref();
            let begin = message(&invocation, verb, id, &args, Path::new(RUNTIME), bundle, None);
            serde_json::to_vec(&Versioned::ours(Request::Begin(Box::new(begin)))).unwrap()
        }
    }

    fn encoded(reply: Reply) -> Vec<u8> {
        serde_json::to_vec(&Versioned::ours(reply)).unwrap()
    }

    fn proceed(exec: bool) -> Vec<u8> {
        encoded(Reply::Proceed(Substitute { exec, ..Substitute::default() }))
    }

    fn is_left_to_the_wrapper() -> bool {
        let is_bypassed = Path::new(BYPASS_FILE).exists();
        if is_bypassed {
            println!("skipped: {BYPASS_FILE} exists");
        }
        let is_user = !rustix::process::geteuid().is_root();
        if is_user {
            println!("skipped: only calls of root are decided early");
        }
        is_bypassed || is_user
    }

    #[test]
    fn the_early_request_equals_the_request_of_the_wrapper() {
        if is_left_to_the_wrapper() {
            return;
        }
        let node = Node::new();
        let odd = ["", "A", "B=\"\\ \u{fc}\u{7f}", "C=\u{1f40b}=", "A=2"];
        for (line, entries) in [
            ("start id", &[][..]),
            ("--root /r --log /l --log-format json start a.b_c-d+e\"\\", &odd),
            ("--root=/r --systemd-cgroup -- delete id", &["PATH=/x"]),
            ("--root= delete --force id", &odd),
            ("--unknown x delete -f id", &odd),
        ] {
            let call = node.call(line, entries);
            let (request, becomes_runtime, left) = node.early(&call, &proceed(true));
            let text = |bytes| String::from_utf8(bytes).unwrap();
            assert_eq!(request.map(text), Some(text(node.late(&call))), "{line}");
            assert!(becomes_runtime, "{line}");
            // If execve(2) fails, the wrapper reads the reply again.
            assert_eq!(left, Some(proceed(true)), "{line}");
        }
        node.configure("plugin_path = '/p' # x\nplugin_config_path = \"/c\"");
        assert!(node.early(&node.call("start id", &[]), &proceed(true)).1);
    }

    #[test]
    fn the_early_request_of_create_equals_that_of_the_wrapper() {
        if is_left_to_the_wrapper() {
            return;
        }
        let node = Node::new();
        let bundle = node.dir.path().display().to_string();
        for line in [
            "--root /r --log /l create --bundle BUNDLE --pid-file p --console-socket /c id",
            "create -b BUNDLE/ --no-pivot -- id",
            "--systemd-cgroup create id --bundle=BUNDLE --preserve-fds 3",
        ] {
            let call = node.call(&line.replace("BUNDLE", &bundle), &["A=1"]);
            let (request, becomes_runtime, left) = node.early(&call, &proceed(false));
            let text = |bytes| String::from_utf8(bytes).unwrap();
            assert_eq!(request.map(text), Some(text(node.late(&call))), "{line}");
            assert!(!becomes_runtime, "{line}");
            assert_eq!(left, Some(proceed(false)), "{line}");
        }
        for line in [
            "create id",
            "create --bundle bundle id",
            "create --bundle BUNDLE",
            "create --bundle BUNDLE id other",
            "create --bundle BUNDLE --config config id",
            "create --bundle BUNDLE --help id",
            "create --bundle BUNDLE --unknown id",
            "create --bundle BUNDLE/none id",
            "create --bundle BUNDLE --bundle= id",
        ] {
            let call = node.call(&line.replace("BUNDLE", &bundle), &[]);
            assert_eq!(node.early(&call, &proceed(false)), (None, false, None), "{line}");
        }
    }

    #[test]
    fn another_reply_is_left_to_the_wrapper() {
        if is_left_to_the_wrapper() {
            return;
        }
        let node = Node::new();
        let call = node.call("start id", &[]);
        let refused = Reply::Refused { message: "x".repeat(1000) };
        let version = Reply::OtherVersion { version: "2".into(), restarting: false };
        let older = Versioned { version: "0.0.9".into(), ..Versioned::ours(Reply::Bypass) };
        for reply in [
            proceed(false),
            encoded(Reply::Bypass),
            encoded(refused),
            encoded(version),
            serde_json::to_vec(&older).unwrap(),
            [&proceed(true)[..], b" "].concat(),
            Vec::new(),
        ] {
            let (request, becomes_runtime, left) = node.early(&call, &reply);
            assert!(request.is_some() && !becomes_runtime, "{reply:?}");
            assert_eq!(left, Some(reply));
        }
    }

    #[test]
    fn unusual_calls_and_configurations_are_left_to_the_wrapper() {
        if is_left_to_the_wrapper() {
            return;
        }
        let node = Node::new();
        let bypass = format!("{BYPASS_ENV}=1");
        let long = format!("A={}", "x".repeat(20_000));
        let check = |line: &str, entries: &[&str]| {
            let early = node.early(&node.call(line, entries), &proceed(true));
            assert_eq!(early, (None, false, None), "{line} {entries:?}");
        };
        for line in [
            "start",
            "start id more",
            "start --help",
            "start ..",
            "start a/b",
            "start \u{fc}",
            "--root r start id",
            "--nri-config /c start id",
            "delete --regex id",
            "delete id --force",
            "delete --force=false id",
            "run id",
            "update id",
        ] {
            check(line, &[]);
        }
        for entry in [&*bypass, &long, "A=\n"] {
            check("start id", &[entry]);
        }
        for lines in [
            "disable = true",
            "disable = false",
            "colour = 1",
            "plugin_path = ''",
            "plugin_path = '/p'\nplugin_path = '/p'",
            "[log]\nlevel = 'info'",
            "[runtime.names.x]\npath = '/x'",
        ] {
            node.configure(lines);
            check("start id", &[]);
        }
        node.configure("");
        assert!(node.early(&node.call("start id", &[]), &proceed(true)).1, "the usual call");
    }

    #[test]
    fn a_reply_is_read_from_the_connection_of_an_early_request() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let reply = encoded(Reply::Bypass);
        theirs.write_all(&u32::try_from(reply.len()).unwrap().to_be_bytes()).unwrap();
        theirs.write_all(&reply).unwrap();
        let mut client = Client::from(OwnedFd::from(ours));
        assert_eq!(client.first_reply(&Request::Ping, &[]).unwrap(), Reply::Bypass);
        drop(client);
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0, "the request is not sent again");
    }
}
