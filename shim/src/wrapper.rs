//! One call of the wrapper, from its command line to its exit code.

use crate::{
    args::CommandLine,
    bypass,
    call::Call,
    error::Error,
    event, exec,
    help::HELP,
    invocation::Invocation,
    log_line::LogLine,
    runtime::{Target, stdio},
};
use nri_locate::{LoadedConfig, find_runtime};
use std::{io::Write, os::fd::OwnedFd, path::Path};

/// Handles the call. Returns the exit code, unless the real runtime replaces this process. `sent`
/// is the connection to `nrid` if `nri-passthrough` has sent the request of this call.
pub(crate) fn run(call: &Call, sent: Option<OwnedFd>) -> i32 {
    stdio::reserve();
    let command_line = CommandLine::scan(&call.arguments);
    let log = LogLine::new(&command_line);
    match attempt(call, &command_line, &log, sent) {
        Ok(code) => code,
        Err(e) => {
            log.error(&e.to_string());
            1
        }
    }
}

fn attempt(
    call: &Call,
    command_line: &CommandLine,
    log: &LogLine,
    sent: Option<OwnedFd>,
) -> Result<i32, Error> {
    let own = &command_line.own;
    if let Some(flag) = own.without_value {
        return Err(Error::OwnFlag(flag));
    }
    if own.help {
        // A failed write cannot be reported better than by the missing text.
        let _ = std::io::stdout().write_all(HELP.as_bytes());
        return Ok(0);
    }
    if own.version {
        let version = env!("CARGO_PKG_VERSION");
        let _ = writeln!(std::io::stdout(), "nri-container-runtime version {version}");
        return Ok(0);
    }
    let (mut loaded, mut target) = locate(call, command_line)?;
    let problem = loaded.problem.take();
    let invocation = Invocation { call, command_line, loaded: &loaded, log };
    match command_line.event_verb() {
        // A request that was sent is not abandoned: plugins have been called.
        Some(verb) if sent.is_some() || !bypass::is_set(&invocation) => {
            event::handle(invocation, verb, problem.map(Error::Config), target, sent)
        }
        _ => {
            if command_line.is_exec() {
                exec::adapt(&invocation, &mut target);
            }
            Err(target.exec(call))
        }
    }
}

/// Returns the configuration, and the call of the real runtime without substitutes.
fn locate(call: &Call, command_line: &CommandLine) -> Result<(LoadedConfig, Target), Error> {
    let (own, environment) = (&command_line.own, &call.environment);
    let loaded = LoadedConfig::read(own.config.as_deref().map(Path::new), environment);
    let settings = &loaded.config.runtime;
    let runtime = find_runtime(own.runtime.as_deref(), call.base_name(), settings, environment)?;
    Ok((loaded, Target::new(runtime, command_line.forwarded())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_locate::{CONFIG_ENV, RUNTIME_ENV};
    use nri_passthrough::{Decision, PathBuffer, decide};
    use proptest::{
        prelude::*,
        sample::{select, subsequence},
        test_runner::{self, TestRunner},
    };
    use std::{
        cell::Cell,
        ffi::{OsStr, OsString},
        fs,
        os::{
            fd::RawFd,
            unix::{
                ffi::OsStrExt,
                fs::{PermissionsExt, symlink},
            },
        },
    };

    /// Lines of configurations; DIR stands for the directory of the test, QUOTES for three quotes.
    const LINES: &str = "
[runtime]
[runtime]
path = 'DIR/a/runc'
path = \"DIR/b/crun\" # comment
path = 'runc'
path = 'special'
path = './runc'
path = 'missing'
path = 7
candidates = ['special', 'crun']
[runtime.names.nri-special]
[runtime.names.runc]
[runtime.names]
[[runtime]]
runtime.path = 'DIR/b/crun'
runtime.names.nri-special.path = 'DIR/a/runc'
state_dir = 'DIR/state'
state-dir = \"DIR/none\"
state_dir = 'state'
# comment ' \"
colour = 1
disable = true
enforce = 'sometimes'
x = QUOTES
QUOTES
x = [1, 'a', \"b\", true,]
x = [
]
x = \"\\u0041\"
[log]
level = 'loud'
[[plugin]]
match = '*'
allow = ['env']
[
= =
";

    /// Arguments of calls. A word that is listed several times is chosen more often.
    const ARGUMENTS: &str = "--root /r --root=/r -r --log --log=/l --log-format json --debug \
        --systemd-cgroup --nri-runtime --nri-config= --nri-version --nri-help --nri -- - \
        --version -h --x \
        state kill exec exec exec create run delete list features id id other ../id --process \
        --process=p -p -tp p -d --pid-file --env A=1 --help sh";

    /// Values of `argv[0]`.
    const NAMES: &str = "nri-container-runtime|/x/nri-container-runtime|/x/nri-special|nri-crun|\
        runc|./crun|youki|nri-|nri-missing|x/..|x/||.";

    /// Lines of the configuration, `argv[0]`, arguments, environment.
    type Case = (Vec<&'static str>, &'static str, Vec<&'static str>, Vec<String>);

    fn close(fd: RawFd) {
        nix::unistd::close(fd).unwrap();
    }

    /// Makes the files that configurations and environments of the tests name.
    fn prepare(root: &Path) {
        let mode = |path: &str, mode| {
            fs::set_permissions(root.join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        for dir in ["a", "b", "c", "state", "state/exec", "open"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        for (file, bits) in [
            ("a/runc", 0o755),
            ("a/crun", 0o644),
            ("b/crun", 0o755),
            ("b/runc", 0o755),
            ("b/special", 0o755),
            ("state/exec/other.json", 0o644),
        ] {
            fs::write(root.join(file), "").unwrap();
            mode(file, bits);
        }
        symlink("../b/special", root.join("c/youki")).unwrap();
        symlink("/proc/self/exe", root.join("c/special")).unwrap();
        symlink("config", root.join("link")).unwrap();
        mode("open", 0o777);
    }

    /// If `nri-passthrough` decides on a call, the rest of the wrapper must decide the same.
    #[test]
    fn the_early_decision_on_a_call_equals_the_decision_of_the_wrapper() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only calls of root are decided early");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        prepare(&root);
        let place = root.to_str().unwrap().to_owned();
        let entries = format!(
            "A PATH= PATH=DIR/a PATH=DIR/c/:DIR/b:bin:DIR/a PATH=x:/usr/bin {RUNTIME_ENV}= \
             {RUNTIME_ENV}=DIR/b/special {RUNTIME_ENV}=crun {CONFIG_ENV}=DIR/config \
             {CONFIG_ENV}=DIR/config {CONFIG_ENV}=DIR/config {CONFIG_ENV}=DIR/config \
             {CONFIG_ENV}=DIR/link {CONFIG_ENV}=DIR/a/../config {CONFIG_ENV}=DIR/none \
             {CONFIG_ENV}=DIR/open/config"
        );
        let entries: Vec<String> =
            entries.split_whitespace().map(|entry| entry.replace("DIR", &place)).collect();
        let cases = (
            subsequence(LINES.lines().collect::<Vec<_>>(), 0..10).prop_shuffle(),
            select(NAMES.split('|').collect::<Vec<_>>()),
            prop::collection::vec(select(ARGUMENTS.split_whitespace().collect::<Vec<_>>()), 0..8),
            subsequence(entries, 0..6).prop_shuffle(),
        );
        let (decided, execs) = (Cell::new(0), Cell::new(0));
        let check = |(lines, name, arguments, entries): Case| {
            let config = lines.join("\n").replace("DIR", &place).replace("QUOTES", "'''");
            for file in ["config", "open/config"] {
                fs::write(root.join(file), &config).unwrap();
            }
            let texts: Vec<&[u8]> = arguments.iter().map(|argument| argument.as_bytes()).collect();
            let mut path = PathBuffer::default();
            let environment = entries.iter().map(String::as_bytes);
            let call = nri_passthrough::BorrowedCall {
                name: name.as_bytes(),
                arguments: &texts,
                environment,
                close,
            };
            // No nrid listens, so no request is sent.
            let Decision::Runtime(early, None) = decide(call, &mut path) else { return Ok(()) };
            decided.set(decided.get() + 1);
            let argv = [name].into_iter().chain(arguments).map(OsString::from).collect();
            let call = Call::new(argv, entries.iter().map(OsString::from).collect());
            let command_line = CommandLine::scan(&call.arguments);
            prop_assert_eq!(&command_line.own, &Default::default());
            prop_assert_eq!(command_line.event_verb(), None);
            let log = LogLine::new(&command_line);
            let (loaded, mut target) = locate(&call, &command_line).unwrap();
            if command_line.is_exec() {
                execs.set(execs.get() + 1);
                let (call, command_line, loaded) = (&call, &command_line, &loaded);
                exec::adapt(&Invocation { call, command_line, loaded, log: &log }, &mut target);
            }
            prop_assert_eq!(target.runtime.as_os_str(), OsStr::from_bytes(early.to_bytes()));
            prop_assert_eq!(&target.arguments, &call.arguments);
            prop_assert!(target.stdin.is_none() && target.inherited.is_none());
            Ok(())
        };
        let config = test_runner::Config { cases: 2000, ..Default::default() };
        TestRunner::new(config).run(&cases, check).unwrap();
        println!("decided: {}, of them exec: {}", decided.get(), execs.get());
        // With fewer decisions, the comparison would prove little.
        assert!(decided.get() > 50 && execs.get() > 5, "too few calls were decided early");
    }

    /// Calls that engines usually make are decided early, unless the call has an event, one of our
    /// own flags or an exec marker.
    #[test]
    fn usual_calls_are_passed_through_early() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only calls of root are decided early");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        prepare(&root);
        let text = |name: &str| root.join(name).to_str().unwrap().to_owned();
        let packaged = format!("# x\n[runtime]\npath = \"{}\"\n", text("a/runc"));
        let state = format!("state_dir = '{}'\n{packaged}", text("state"));
        for (config, line, expected) in [
            (&packaged, "--root /r --log /l --log-format json state id", true),
            (&packaged, "--root /r --log /l --log-format json --systemd-cgroup kill id 9", true),
            (&packaged, "--version", true),
            (&packaged, "exec --tty id sh", true),
            (&state, "--root /r exec --process /p --detach --pid-file /f id", true),
            (&state, "--root /r exec --process /p --detach --pid-file /f other", false),
            (&packaged, "--root /r --log /l create --bundle /b id", false),
            (&packaged, "--nri-version", false),
        ] {
            fs::write(root.join("config"), config).unwrap();
            let entry = format!("{CONFIG_ENV}={}", text("config"));
            let arguments: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let mut path = PathBuffer::default();
            let call = nri_passthrough::BorrowedCall {
                name: b"/usr/bin/nri-container-runtime",
                arguments: &arguments,
                environment: [entry.as_bytes()].into_iter(),
                close,
            };
            let early = match decide(call, &mut path) {
                Decision::Runtime(path, None) => Some(path.to_str().unwrap().to_owned()),
                _ => None,
            };
            assert_eq!(early, expected.then(|| text("a/runc")), "{line}");
        }
    }
}
