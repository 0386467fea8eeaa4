//! Transparency: a call of the real runtime through the wrapper, by `execve` or as a child, is the
//! same as a direct call.

use crate::harness::{Server, WrapperHarness, always, argv, stderr};
use nri_control::Exit;
use nri_tests::fake_runtime::FakeRuntime;
use serde_json::{Value, json};
use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    process::{Command, Output, Stdio},
};

/// `state` runs by `execve` without nrid, `run` runs by `execve` after a reply of nrid, and the
/// other verbs run as a child.
const VERBS: [&str; 6] = ["state", "run", "create", "start", "update", "delete"];

/// Calls the fake runtime directly and through the wrapper; `make` returns the command for either
/// program. Returns output and recorded call of both.
fn direct_and_wrapped(
    harness: &WrapperHarness,
    make: impl Fn(&std::path::Path) -> Command,
) -> [(Output, Value); 2] {
    [harness.fake.path.clone(), harness.wrapper()].map(|program| {
        harness.fake.clear();
        let output = make(&program).output().unwrap();
        let mut calls = harness.fake.calls();
        assert_eq!(calls.len(), 1, "{program:?}: {}", stderr(&output));
        (output, calls.remove(0))
    })
}

/// Checks that a direct call and a call through the wrapper are the same, except for process ids
/// and the parent-death signal of a child.
fn check_same(harness: &WrapperHarness, what: &str, make: impl Fn(&std::path::Path) -> Command) {
    let [(direct_output, direct), (wrapped_output, wrapped)] = direct_and_wrapped(harness, make);
    assert_eq!(wrapped["argv"], direct["argv"], "{what}");
    for key in ["env", "cwd", "umask", "fds", "blocked", "ignored"] {
        // Two runs have different pipes and sockets, so only the kind of these is compared.
        assert_eq!(kinds(&wrapped["own"][key]), kinds(&direct["own"][key]), "{key} of {what}");
    }
    assert_eq!(wrapped["stdin"], direct["stdin"], "{what}");
    assert_eq!(wrapped_output.status, direct_output.status, "{what}");
    assert_eq!(wrapped_output.stdout, direct_output.stdout, "{what}");
    assert_eq!(wrapped_output.stderr, direct_output.stderr, "{what}");
}

/// Returns the value without the inode numbers of pipes and sockets.
fn kinds(value: &Value) -> Value {
    match value {
        Value::String(text) if text.starts_with("pipe:[") => "pipe".into(),
        Value::String(text) if text.starts_with("socket:[") => "socket".into(),
        Value::Object(map) => {
            map.iter().map(|(k, v)| (k.clone(), kinds(v))).collect::<serde_json::Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

/// Returns typical arguments of a verb.
fn arguments(verb: &str) -> Vec<&str> {
    match verb {
        "create" | "run" => vec!["--root", "/r", verb, "--bundle", "bundle", "id"],
        _ => vec!["--root=/r", "--debug", verb, "id"],
    }
}

#[test]
fn argv_and_environment_are_those_of_the_caller() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    for verb in VERBS {
        check_same(&harness, verb, |program| {
            let mut command = harness.command_of(program, &arguments(verb));
            command
                .env("EMPTY", "")
                .env("ODD", OsStr::from_bytes(b"\xff\xfe=\n"))
                .env("LISTEN_FDS", "2");
            command
        });
    }
}

#[test]
fn argv_is_passed_byte_for_byte() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    let not_utf8 = OsStr::from_bytes(b"--console-socket=/\xff\xfe \n'\"");
    for arguments in [
        vec![OsStr::new("create"), not_utf8, OsStr::new("-b=bundle"), OsStr::new("id")],
        vec![
            OsStr::new("-log"),
            OsStr::from_bytes(b"/nowhere/\x80"),
            OsStr::new("create"),
            OsStr::new("-bundle"),
            OsStr::new("bundle"),
            OsStr::new("id"),
        ],
        vec![
            OsStr::new("--"),
            OsStr::new("create"),
            OsStr::new("--bundle=bundle"),
            OsStr::new("--"),
            OsStr::new("id"),
        ],
        vec![
            OsStr::new("create"),
            OsStr::new("--unknown=\u{fc}"),
            OsStr::new("--bundle=bundle"),
            OsStr::new("id"),
        ],
        vec![OsStr::new("frobnicate"), OsStr::new(""), not_utf8],
        vec![OsStr::new("--frobnicate")],
        vec![OsStr::new("create")],
        vec![],
    ] {
        check_same(&harness, &format!("{arguments:?}"), |program| {
            let mut command = harness.command_of(program, &[]);
            command.args(&arguments);
            command
        });
    }
}

#[test]
fn flags_of_the_wrapper_are_removed_from_argv() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    let (runtime, config) = (harness.text("bin/runc"), harness.text("config.toml"));
    let config_option = format!("--nri-config={config}");
    let output = harness.run(&[
        "--debug",
        "--nri-runtime",
        &runtime,
        &config_option,
        "--root",
        "/r",
        "create",
        "-b",
        "bundle",
        "--nri-config",
        "id",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(
        argv(&harness.fake.calls()[0])[1..],
        ["--debug", "--root", "/r", "create", "-b", "bundle", "--nri-config", "id"]
    );
}

#[test]
fn umask_descriptors_and_ignored_signals_are_those_of_the_caller() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    for name in ["a", "b"] {
        std::fs::write(harness.path(name), name).unwrap();
    }
    for preparation in [
        "umask 0027",
        "umask 0; cd /",
        "exec 3<a 4>b 7<a 9<>b",
        "exec 0<&-",
        "exec 0<&- 1>&- 2>&-",
        "exec 2>&- 5<a",
        "trap '' PIPE HUP",
    ] {
        for verb in VERBS {
            let bundle = harness.text("bundle");
            let arguments = arguments(verb)
                .into_iter()
                .map(|a| if a == "bundle" { &bundle } else { a })
                .collect::<Vec<_>>();
            check_same(&harness, &format!("{verb} after {preparation}"), |program| {
                harness.through_shell(program, preparation, &arguments)
            });
        }
    }
}

/// Returns a command with blocked signals and an ignored SIGCHLD, which a shell cannot set.
fn with_signals(
    harness: &WrapperHarness,
    program: &std::path::Path,
    arguments: &[&str],
) -> Command {
    let options = [
        "--block-signal=USR1",
        "--block-signal=TERM",
        "--ignore-signal=PIPE",
        "--ignore-signal=CHLD",
    ];
    let mut env = harness.command_of("/usr/bin/env".as_ref(), &options);
    env.arg(program).args(arguments);
    env
}

#[test]
fn blocked_and_ignored_signals_are_inherited() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    for verb in VERBS {
        check_same(&harness, verb, |program| with_signals(&harness, program, &arguments(verb)));
        // USR1 (10) and TERM (15) are blocked, PIPE (13) and CHLD (17) are ignored. Bit n - 1
        // stands for signal n. Other bits are masked, since the tests may have inherited other
        // signals.
        let own = harness.fake.calls()[0]["own"].clone();
        let mask = |key: &str| u64::from_str_radix(own[key].as_str().unwrap(), 16).unwrap();
        assert_eq!((mask("blocked") & 0x4200, mask("ignored") & 0x11000), (0x4200, 0x11000));
    }
}

#[test]
fn the_wrapper_exits_as_the_real_runtime() {
    let harness = WrapperHarness::new();
    for step in [
        json!({"exit": 0}),
        json!({"exit": 1, "stderr": "it failed\n"}),
        json!({"exit": 127}),
        json!({"exit": 255, "stdout": "some\noutput"}),
        json!({"signal": 9}),
        json!({"signal": 15}),
        json!({"signal": 6}),
        json!({"signal": 13}),
        json!({"signal": 34}),
    ] {
        harness.fake.script(&always(step.clone())).unwrap();
        for verb in VERBS {
            let server = Server::proceeding(&harness);
            check_same(&harness, &format!("{step} of {verb}"), |program| {
                harness.command_of(program, &arguments(verb))
            });
            let expected = match (verb, &step["signal"], &step["exit"]) {
                ("state" | "run", ..) => None,
                (_, Value::Number(signal), _) => {
                    Some(Exit::Signal(signal.as_i64().unwrap() as i32))
                }
                (.., code) => Some(Exit::Code(code.as_i64().unwrap() as i32)),
            };
            assert_eq!(server.finished().map(|f| f.exit), expected, "{step} of {verb}");
        }
    }
}

#[test]
fn the_exit_code_of_the_runtime_is_returned_if_sigchld_is_ignored() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    harness.fake.script(&always(json!({"exit": 3}))).unwrap();
    let output = with_signals(&harness, &harness.wrapper(), &["start", "id"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn stdin_is_inherited() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    harness.fake.script(&always(json!({"stdin": true}))).unwrap();
    std::fs::write(harness.path("input"), b"some \xff input\n").unwrap();
    for verb in VERBS {
        check_same(&harness, verb, |program| {
            let mut command = harness.command_of(program, &arguments(verb));
            command.stdin(std::fs::File::open(harness.path("input")).unwrap());
            command
        });
    }
}

#[test]
fn the_runtime_is_in_the_process_group_of_the_wrapper() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    for (verb, is_child) in [("state", false), ("run", false), ("create", true), ("delete", true)] {
        harness.fake.clear();
        let mut child = harness.command(&arguments(verb)).stdout(Stdio::null()).spawn().unwrap();
        let pid = i64::from(child.id());
        assert!(child.wait().unwrap().success());
        let own = harness.fake.calls()[0]["own"].clone();
        let group = i64::from(nix::unistd::getpgrp().as_raw());
        assert_eq!(own["pgid"], group, "{verb}");
        assert_eq!(own[if is_child { "ppid" } else { "pid" }], pid, "{verb}");
        assert_eq!(
            own["parent_death_signal"],
            if is_child { json!(9) } else { Value::Null },
            "only a child is killed (SIGKILL, 9) when the wrapper dies: {verb}"
        );
    }
}

#[test]
fn listen_pid_names_the_real_runtime() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    for (verb, preparation, names_wrapper) in [
        ("state", "export LISTEN_FDS=1 LISTEN_PID=$$", true),
        ("create", "export LISTEN_FDS=1 LISTEN_PID=$$", true),
        ("create", "export LISTEN_FDS=1 LISTEN_PID=1", false),
    ] {
        harness.fake.clear();
        let output = harness
            .through_shell(&harness.wrapper(), preparation, &arguments(verb))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let own = &harness.fake.calls()[0]["own"];
        let listen = own["env"]
            .as_array()
            .unwrap()
            .iter()
            .find_map(|v| v.as_str()?.strip_prefix("LISTEN_PID="));
        let expected = if names_wrapper { own["pid"].to_string() } else { "1".to_owned() };
        assert_eq!(listen, Some(expected.as_str()), "{verb} {preparation}");
    }
}

#[test]
fn environment_entries_without_equals_sign_are_passed_through() {
    let harness = WrapperHarness::new();
    let _server = Server::proceeding(&harness);
    let caller = FakeRuntime::install(&harness.path("caller"), "caller").unwrap();
    for verb in VERBS {
        let environments = [harness.fake.path.clone(), harness.wrapper()].map(|program| {
            harness.fake.clear();
            let argv = [&[program.to_str().unwrap()], arguments(verb).as_slice()].concat();
            let config = format!("{}={}", nri_locate::CONFIG_ENV, harness.text("config.toml"));
            let path = format!("PATH={}", harness.text("bin"));
            let env = ["no equals sign", "A=1", &path, "A=2", "", "=x", &config];
            caller.script(&always(json!({"exec": {"argv": argv, "env": env}}))).unwrap();
            let output = harness.command_of(&caller.path, &[]).output().unwrap();
            assert!(output.status.success(), "{}", stderr(&output));
            harness.fake.calls()[0]["own"]["env"].clone()
        });
        assert_eq!(environments[1], environments[0], "{verb}");
        assert_eq!(environments[0].as_array().unwrap().len(), 7, "all entries of `env`");
    }
}

#[test]
fn an_empty_environment_is_passed_through() {
    let harness = WrapperHarness::new();
    let runtime = harness.text("bin/runc");
    check_same(&harness, "an empty environment", |program| {
        let is_wrapper = program == harness.wrapper();
        let mut command = harness.command_of(program, &[]);
        command.env_clear();
        if is_wrapper {
            command.args(["--nri-runtime", &runtime]);
        }
        command.args(["kill", "id", "9"]);
        command
    });
}

/// The file is executable, so only execve(2) detects that it is not a program.
#[test]
fn a_runtime_that_cannot_be_executed_is_reported() {
    let harness = WrapperHarness::new();
    let runtime = harness.path("text");
    fs::write(&runtime, "neither a program nor a script").unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
    harness.configure(&format!("[runtime]\npath = {runtime:?}\n"));
    let output = harness.run(&["--log=log", "--log-format", "json", "state", "id"]);
    let expected =
        format!("nri-container-runtime: cannot run {}: Exec format error (os error 8)\n", {
            runtime.display()
        });
    assert_eq!((output.status.code(), stderr(&output)), (Some(1), expected));
    let log = fs::read_to_string(harness.path("log")).unwrap();
    assert!(log.contains("Exec format error"), "{log}");
}

#[test]
fn any_number_of_arguments_is_passed_through() {
    let harness = WrapperHarness::new();
    for count in [1, 1000] {
        harness.fake.clear();
        let long = "x".repeat(100_000);
        let arguments: Vec<&str> =
            ["exec", "id", &long].into_iter().chain(std::iter::repeat_n("a", count)).collect();
        let output = harness.run(&arguments);
        assert!(output.status.success(), "{count}: {}", stderr(&output));
        let call = harness.fake.calls().remove(0);
        assert_eq!(argv(&call)[1..], arguments[..], "{count}");
    }
}
