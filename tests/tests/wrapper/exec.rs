//! `exec`: the real runtime receives a changed process file; everything else is unchanged.

use crate::harness::{WrapperHarness, always, argv, stderr};
use nri_files::{
    EXEC_DIR, ExecChanges, ExecContainer, ExecLimits, ExecMarker, ExecRights, ExecRlimit, ExecUser,
    ExecVariable,
};
use nri_locate::BYPASS_ENV;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Output,
};

/// Process file of an engine. Many parsers change its numbers and the order of its members.
const GIVEN: &str = concat!(
    r#"{"terminal":false,"user":{"uid":1.50,"gid":98765432109876543210},"args":["sh"],"#,
    r#""env":["PATH=/bin","A=1","X=exec"],"cwd":"/","#,
    r#""rlimits":[{"type":"RLIMIT_NOFILE","hard":10,"soft":10}]}"#,
);
/// The same file with the effects of [`changes`].
const EXPECTED: &str = concat!(
    r#"{"terminal":false,"user":{"uid":1.50,"gid":98765432109876543210},"args":["sh"],"#,
    r#""env":["PATH=/bin","A=one","X=exec","NEW=n"],"cwd":"/","#,
    r#""rlimits":[{"type":"RLIMIT_NOFILE","hard":99,"soft":9}]}"#,
);

/// Changes of A, X and NEW. [`GIVEN`] has the engine's value of A, which is replaced, and another
/// value of X, which is kept.
fn changes() -> ExecChanges {
    let variable = |name: &str, engine: Option<&str>, value: &str| ExecVariable {
        name: name.into(),
        engine: engine.map(Into::into),
        value: Some(value.into()),
    };
    ExecChanges {
        env: vec![
            variable("A", Some("1"), "one"),
            variable("X", Some("0"), "x"),
            variable("NEW", None, "n"),
        ],
        rlimits: vec![ExecRlimit {
            engine: Some(json!({"type": "RLIMIT_NOFILE", "soft": 10, "hard": 10})),
            value: json!({"type": "RLIMIT_NOFILE", "hard": 99, "soft": 9}),
        }],
    }
}

/// Returns a harness with the process file `p` and a runtime that records it.
fn harness() -> WrapperHarness {
    let harness = WrapperHarness::new();
    fs::create_dir(harness.path("state").join(EXEC_DIR)).unwrap();
    fs::create_dir(harness.path("root")).unwrap();
    fs::write(harness.path("p"), GIVEN).unwrap();
    harness.fake.script(&always(json!({"process_file": true}))).unwrap();
    harness
}

/// Writes the exec marker of container `id`, as nrid does.
fn write_marker(harness: &WrapperHarness, id: &str, root: &Path) {
    let root = fs::canonicalize(root).unwrap_or(root.to_owned());
    let container = ExecContainer { root: (&root).into(), changes: changes(), limits: None };
    save_marker(harness, id, container);
}

/// Writes the exec marker of container `id`, whose process has user 5, group 6 and the capability
/// CAP_CHOWN.
fn write_limits(harness: &WrapperHarness, limits_user: bool) {
    let rights = ExecRights {
        capabilities: Some(vec!["CAP_CHOWN".into()]),
        no_new_privileges: true,
        apparmor_profile: Some("p".into()),
        selinux_label: None,
    };
    let user = limits_user.then(|| ExecUser { uid: 5, gid: 6, additional_gids: Vec::new() });
    let limits = Some(ExecLimits { rights: Some(rights), user });
    let root = fs::canonicalize(harness.path("root")).unwrap();
    let changes = ExecChanges::default();
    save_marker(harness, "id", ExecContainer { root: (&root).into(), changes, limits });
}

fn save_marker(harness: &WrapperHarness, id: &str, container: ExecContainer) {
    let marker = ExecMarker { containers: vec![container] };
    fs::write(ExecMarker::path(&harness.path("state"), id), serde_json::to_vec(&marker).unwrap())
        .unwrap();
}

/// Returns the call of the real runtime and clears the records.
fn only_call(harness: &WrapperHarness, output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    let call = harness.fake.calls().remove(0);
    harness.fake.clear();
    call
}

/// Checks that the real runtime is called with the caller's arguments and descriptors. Returns
/// stderr of the wrapper.
fn check_passed_through(harness: &WrapperHarness, arguments: &[&str]) -> String {
    let output = harness.run(arguments);
    let call = only_call(harness, &output);
    assert_eq!(argv(&call)[1..], *arguments);
    assert_eq!(added_descriptors(harness, &call), <[String; 0]>::default(), "{arguments:?}");
    stderr(&output)
}

/// Returns the numbers of the descriptors that the real runtime has and the caller does not have.
fn added_descriptors(harness: &WrapperHarness, call: &Value) -> Vec<String> {
    let numbers =
        |call: &Value| call["own"]["fds"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let before = numbers(&only_call(
        harness,
        &harness.command_of(&harness.fake.path, &["state"]).output().unwrap(),
    ));
    numbers(call).into_iter().filter(|n| !before.contains(n)).collect()
}

#[test]
fn only_the_process_file_of_an_exec_is_replaced() {
    let harness = harness();
    write_marker(&harness, "id", &harness.path("root"));
    for (arguments, option) in [
        (&["--root", "root", "exec", "--process", "p", "id"][..], ""),
        (
            &[
                "--root=root",
                "--debug",
                "exec",
                "--detach",
                "--pid-file",
                "id",
                "--process=p",
                "id",
            ],
            "--process=",
        ),
        (&["--root=./root/", "exec", "-p", "p", "-e", "A=b", "--cap", "c", "id"], ""),
        (&["--root=bundle/../root", "exec", "-p=p", "--", "id"], "-p="),
        (
            &["--root", "root", "exec", "--process", "p", "id", "--process", "p", "-p=p", "", "id"],
            "",
        ),
    ] {
        let output = harness.run(arguments);
        let call = only_call(&harness, &output);
        let got = argv(&call);
        let changed: Vec<_> =
            (0..arguments.len()).filter(|i| got[i + 1] != arguments[*i]).collect();
        assert_eq!((got.len(), changed.len()), (arguments.len() + 1, 1), "{got:?}");
        let number = got[changed[0] + 1].strip_prefix(&format!("{option}/proc/self/fd/")).unwrap();
        assert!(arguments[changed[0]].ends_with('p'), "{got:?}");
        assert_eq!(added_descriptors(&harness, &call), [number]);
        assert_eq!(call["process_file"], EXPECTED, "{arguments:?}");
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(
        fs::read_to_string(harness.path("p")).unwrap(),
        GIVEN,
        "the caller's file is not touched"
    );
}

#[test]
fn the_descriptor_of_the_process_file_is_outside_the_range_of_preserve_fds() {
    let harness = harness();
    write_marker(&harness, "id", &harness.path("root"));
    // The lowest free number is 3 (stdio) plus LISTEN_FDS plus --preserve-fds.
    for (listen, preserve, lowest) in [("", "4", 7), ("2", "4", 9), ("2", "0", 5)] {
        let arguments =
            ["--root", "root", "exec", "--preserve-fds", preserve, "--process", "p", "id"];
        let mut command =
            harness.through_shell(&harness.wrapper(), "exec 3</dev/null 4</dev/null", &arguments);
        command.env("LISTEN_FDS", listen);
        let call = only_call(&harness, &command.output().unwrap());
        // The value of --process is the argument 7, since argv[0] is the runtime.
        let number = argv(&call)[7].strip_prefix("/proc/self/fd/").unwrap().to_owned();
        assert!(number.parse::<i32>().unwrap() >= lowest, "{number}");
        assert_eq!(added_descriptors(&harness, &call), ["3", "4", &number]);
        assert_eq!(call["process_file"], EXPECTED);
    }
    let error = check_passed_through(
        &harness,
        &["--root=root", "exec", "--preserve-fds=no", "--process", "p", "id"],
    );
    assert!(error.contains("--preserve-fds"), "{error}");
}

#[test]
fn an_exec_marker_applies_only_to_the_root_of_its_container() {
    let harness = harness();
    symlink("root", harness.path("link")).unwrap();
    write_marker(&harness, "id", &harness.path("root"));
    for (root, is_applied) in [("root", true), ("link", true), ("other", false)] {
        let output = harness.run(&["--root", root, "exec", "--process", "p", "id"]);
        let expected = if is_applied { EXPECTED } else { GIVEN };
        assert_eq!(only_call(&harness, &output)["process_file"], expected, "{root}");
    }
    // Without `--root`, the default of the runtime applies.
    let owner = nri_locate::NridOwner::of(
        &fs::read_to_string("/proc/self/uid_map").unwrap(),
        rustix::process::geteuid().as_raw(),
        Some("/x".into()),
    );
    write_marker(&harness, "id", &nri_locate::runtime_root("runc", &owner, Some(Path::new("/x"))));
    let output = harness
        .command(&["exec", "--process", "p", "id"])
        .env("XDG_RUNTIME_DIR", "/x")
        .output()
        .unwrap();
    assert_eq!(only_call(&harness, &output)["process_file"], EXPECTED);
}

#[test]
fn an_exec_without_changes_is_passed_through() {
    let harness = harness();
    let exec = ["--root", "root", "exec", "--process", "p", "id"];
    assert_eq!(check_passed_through(&harness, &exec), "", "no marker");
    write_marker(&harness, "other", &harness.path("root"));
    assert_eq!(check_passed_through(&harness, &exec), "", "a marker of another container");
    write_marker(&harness, "id", &harness.path("bundle"));
    assert_eq!(check_passed_through(&harness, &exec), "", "a marker of another root");
    write_marker(&harness, "id", &harness.path("root"));
    for arguments in [
        &["--root=root", "exec", "id", "sh"][..],
        &["--root=root", "exec", "id", "sh", "--process", "p"],
        &["--root=root", "exec", "--env", "A=1", "id", "--process", "p"],
        &["--root=root", "exec", "--unknown", "id", "--process", "p"],
        &["--root=root", "exec"],
        &["--root=root", "state", "--process", "p", "id"],
        &["--help", "--root=root", "exec", "--process", "p", "id"],
    ] {
        assert_eq!(check_passed_through(&harness, arguments), "", "{arguments:?}");
    }
    // Errors of the arguments are reported by the runtime.
    harness.fake.script(&always(json!({}))).unwrap();
    assert_eq!(
        check_passed_through(&harness, &["--root=root", "exec", "--process", "missing", "id"]),
        ""
    );
    assert_eq!(
        check_passed_through(&harness, &["--root=root", "exec", "--process", "p", "../id"]),
        ""
    );
    fs::write(
        harness.path("p"),
        r#"{"env":["A=2","X=1","NEW=3"],"rlimits":[{"type":"RLIMIT_NOFILE"}]}"#,
    )
    .unwrap();
    assert_eq!(
        check_passed_through(&harness, &exec),
        "",
        "the caller of exec set all values itself"
    );
}

#[test]
fn an_exec_is_passed_through_while_nri_is_bypassed() {
    let harness = harness();
    write_marker(&harness, "id", &harness.path("root"));
    let exec = ["--root", "root", "exec", "--process", "p", "id"];
    let output = harness.command(&exec).env(BYPASS_ENV, "1").output().unwrap();
    assert_eq!(argv(&only_call(&harness, &output))[1..], exec);
    harness.configure("disable = true");
    assert_eq!(check_passed_through(&harness, &exec), "");
}

#[test]
fn an_exec_with_an_unusable_marker_or_process_file_is_passed_through_with_a_warning() {
    let harness = harness();
    let marker = ExecMarker::path(&harness.path("state"), "id");
    let state = harness.path("state");
    let mode = |mode| fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
    let exec = ["--log=log", "--log-format=json", "--root=root", "exec", "--process", "p", "id"];
    let check = |because: &str| {
        let _ = fs::remove_file(harness.path("log"));
        let error = check_passed_through(&harness, &exec);
        assert_eq!(error.lines().count(), 1, "{error}");
        let log: Value = serde_json::from_slice(&fs::read(harness.path("log")).unwrap()).unwrap();
        assert_eq!(log["level"], "warning");
        for text in [error.as_str(), log["msg"].as_str().unwrap()] {
            assert!(text.contains(because) && text.contains("exec in id"), "{because:?} in {text}");
        }
    };
    fs::write(&marker, "{\"containers\": [{}]}").unwrap();
    check("exec/id.json");
    // The marker and the process file are limited to 4 MiB each.
    fs::write(&marker, vec![b' '; (4 << 20) + 1]).unwrap();
    check("larger than");
    write_marker(&harness, "id", &harness.path("root"));
    mode(0o777);
    check("is writable by everybody");
    mode(0o700);
    for (process, because) in [
        ("{\"env\":", "EOF"),
        ("[]", "process"),
        ("{\"env\":[1]}", "env"),
        ("{\"rlimits\":{}}", "rlimits"),
    ] {
        fs::write(harness.path("p"), process).unwrap();
        check(because);
    }
    fs::write(harness.path("p"), vec![b' '; (4 << 20) + 1]).unwrap();
    check("larger than");
    // The wrapper does not read a pipe, because the runtime could not read it again.
    let with_pipe = ["-c", "printf '{\"env\":[]}' | \"$@\"", "sh"];
    let mut pipe = harness.command_of(Path::new("/bin/sh"), &with_pipe);
    pipe.arg(harness.wrapper()).args(["--root=root", "exec", "--process", "/dev/stdin", "id"]);
    let output = pipe.output().unwrap();
    assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
    assert_eq!(only_call(&harness, &output)["process_file"], "{\"env\":[]}");
}

/// Process file with the rights and the user of the container of [`write_limits`].
const AS_CONTAINER: &str = r#"{"user":{"uid":5,"gid":6},"args":["sh"],"cwd":"/",
    "capabilities":{"bounding":["CAP_CHOWN"]},"noNewPrivileges":true,"apparmorProfile":"p"}"#;

/// Checks that an `exec` fails as a failed `exec` of runc does, for this reason, and that the real
/// runtime is not called.
#[track_caller]
fn check_refused(harness: &WrapperHarness, arguments: &[&str], because: &str) {
    let _ = fs::remove_file(harness.path("log"));
    let globals = ["--log=log", "--log-format=json", "--root=root", "exec"];
    let output = harness.run(&[&globals[..], arguments].concat());
    assert_eq!(output.status.code(), Some(255), "{arguments:?}: {}", stderr(&output));
    harness.check_not_called();
    let log: Value = serde_json::from_slice(&fs::read(harness.path("log")).unwrap()).unwrap();
    assert_eq!(log["level"], "error");
    let message = log["msg"].as_str().unwrap();
    assert!(message.contains("exec in id refused: ") && message.contains(because), "{message}");
    assert_eq!(stderr(&output), format!("{message}\n"));
}

#[test]
fn an_exec_with_more_than_its_container_has_is_refused() {
    let harness = harness();
    write_limits(&harness, true);
    let process = ["--process", "p", "id"];
    let check_file = |edit: &dyn Fn(&mut Value), because: &str| {
        let mut process_file: Value = serde_json::from_str(AS_CONTAINER).unwrap();
        edit(&mut process_file);
        fs::write(harness.path("p"), process_file.to_string()).unwrap();
        check_refused(&harness, &process, because);
    };
    let privileged = json!({"bounding": ["CAP_CHOWN", "CAP_SYS_ADMIN"]});
    check_file(
        &|p| p["capabilities"] = privileged.clone(),
        "more than the container has: CAP_SYS_ADMIN ([exec] more_rights was \"refuse\"",
    );
    check_file(&|p| p["noNewPrivileges"] = json!(false), "no_new_privs is not set");
    check_file(&|p| p["apparmorProfile"] = json!("unconfined"), "AppArmor profile");
    check_file(
        &|p| p["user"]["uid"] = json!(0),
        "user 0 in place of 5 ([exec] other_user was \"refuse\"",
    );
    check_file(&|p| p["capabilities"] = json!(7), "capabilities is malformed");
    fs::write(harness.path("p"), "{").unwrap();
    check_refused(&harness, &process, "EOF");
    fs::remove_file(harness.path("p")).unwrap();
    check_refused(&harness, &process, "No such file");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, harness.path("p"), mode).unwrap();
    check_refused(&harness, &process, "not a regular file");
    for (arguments, because) in [
        (&["--cap", "CAP_BPF", "id", "sh"][..], "CAP_BPF"),
        (&["-c", "chown", "-csys_admin", "id", "sh"], "CAP_SYS_ADMIN"),
        (&["--no-new-privs=false", "id", "sh"], "no_new_privs"),
        (&["--apparmor=q", "id", "sh"], "AppArmor"),
        (&["--user", "0", "id", "sh"], "user 0"),
        (&["-u0:0", "id", "sh"], "user 0"),
        (&["--additional-gids", "0", "id", "sh"], "group 0"),
    ] {
        check_refused(&harness, arguments, because);
    }
}

#[test]
fn an_exec_within_the_limits_of_its_container_is_passed_through() {
    let harness = harness();
    write_limits(&harness, true);
    fs::write(harness.path("p"), AS_CONTAINER).unwrap();
    let output = harness.run(&["--root=root", "exec", "--process", "p", "id"]);
    let call = only_call(&harness, &output);
    // A copy: the caller's file may change until the runtime reads it.
    assert!(argv(&call)[4].starts_with("/proc/self/fd/"), "{call}");
    let read: Value = serde_json::from_str(call["process_file"].as_str().unwrap()).unwrap();
    assert_eq!(read, serde_json::from_str::<Value>(AS_CONTAINER).unwrap());
    harness.fake.script(&always(json!({}))).unwrap();
    for arguments in [
        &["id", "sh"][..],
        &["--env", "A=b", "--cgroup", "x", "--no-new-privs", "id", "sh", "--cap", "CAP_BPF"],
        &["--cap", "CAP_CHOWN", "--apparmor", "p", "--user", "5:6", "id", "sh"],
    ] {
        let arguments = [&["--root=root", "exec"], arguments].concat();
        assert_eq!(check_passed_through(&harness, &arguments), "");
    }
    // Another user is not more rights.
    write_limits(&harness, false);
    let arguments = ["--root=root", "exec", "--user", "0:0", "id", "sh"];
    assert_eq!(check_passed_through(&harness, &arguments), "");
    // In another root, the container is another one.
    let arguments = ["--root=bundle", "exec", "--cap", "CAP_BPF", "id", "sh"];
    assert_eq!(check_passed_through(&harness, &arguments), "");
    let exec = ["--root=root", "exec", "--cap", "CAP_BPF", "id", "sh"];
    let output = harness.command(&exec).env(BYPASS_ENV, "1").output().unwrap();
    assert_eq!(argv(&only_call(&harness, &output))[1..], exec);
}

#[test]
fn an_unusable_marker_refuses_an_exec_only_where_the_configuration_limits_it() {
    let harness = harness();
    let marker = ExecMarker::path(&harness.path("state"), "id");
    let arguments = ["--process", "p", "id"];
    let spoil: [&dyn Fn(); 3] = [
        &|| fs::write(&marker, "{").unwrap(),
        &|| fs::write(&marker, vec![b' '; (4 << 20) + 1]).unwrap(),
        &|| {
            fs::remove_file(&marker).unwrap();
            fs::create_dir(&marker).unwrap();
        },
    ];
    for spoil in spoil {
        spoil();
        harness.configure("");
        let passed = [&["--root=root", "exec"], &arguments[..]].concat();
        let warning = check_passed_through(&harness, &passed);
        assert!(warning.contains("proceeds without"), "{warning}");
        for key in ["more_rights", "other_user"] {
            harness.configure(&format!("[exec]\n{key} = 'refuse'\n"));
            check_refused(&harness, &arguments, "exec/id.json");
        }
    }
    // A container without a marker has no limits.
    fs::remove_dir(&marker).unwrap();
    assert_eq!(
        check_passed_through(&harness, &["--root=root", "exec", "--process", "p", "id"]),
        ""
    );
}
