//! `exec`: the process document that the real runtime gets, and that nothing else becomes
//! different.

use crate::lab::{Lab, always, argv, stderr};
use nri_control::{EXEC_DIR, ExecChanges, ExecContainer, ExecMarker, ExecRlimit, ExecVariable};
use nri_locate::BYPASS_ENV;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    process::Output,
};

/// As an engine writes it; numbers and the order of members are such that they show whether they
/// are kept.
const GIVEN: &str = r#"{"terminal":false,"user":{"uid":1.50,"gid":98765432109876543210},"args":["sh"],"env":["PATH=/bin","A=1","X=exec"],"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE","hard":10,"soft":10}]}"#;
const EXPECTED: &str = r#"{"terminal":false,"user":{"uid":1.50,"gid":98765432109876543210},"args":["sh"],"env":["PATH=/bin","A=one","X=exec","NEW=n"],"cwd":"/","rlimits":[{"type":"RLIMIT_NOFILE","hard":99,"soft":9}]}"#;

/// A, X and NEW, of which the document above has A as the engine has it and X as a value of its
/// own.
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

/// A lab with a process document `p` and a runtime that notes it.
fn lab() -> Lab {
    let lab = Lab::new();
    fs::create_dir(lab.path("state").join(EXEC_DIR)).unwrap();
    fs::create_dir(lab.path("root")).unwrap();
    fs::write(lab.path("p"), GIVEN).unwrap();
    lab.fake.script(&always(json!({"process_document": true}))).unwrap();
    lab
}

/// Writes the marker of `id`, as nrid does.
fn mark(lab: &Lab, id: &str, root: &Path) {
    let root = fs::canonicalize(root).unwrap_or(root.to_owned());
    let marker =
        ExecMarker { containers: vec![ExecContainer { root: (&root).into(), changes: changes() }] };
    fs::write(ExecMarker::path(&lab.path("state"), id), serde_json::to_vec(&marker).unwrap())
        .unwrap();
}

fn call(lab: &Lab, output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    let call = lab.fake.calls().remove(0);
    lab.fake.forget();
    call
}

/// The real runtime is called as by the caller; returns what was said.
fn check_untouched(lab: &Lab, arguments: &[&str]) -> String {
    let output = lab.run(arguments);
    let call = call(lab, &output);
    assert_eq!(argv(&call)[1..], *arguments);
    assert_eq!(added(lab, &call), <[String; 0]>::default(), "{arguments:?}");
    stderr(&output)
}

/// Numbers of the descriptors that the real runtime has and the caller has not.
fn added(lab: &Lab, call: &Value) -> Vec<String> {
    let numbers =
        |call: &Value| call["own"]["fds"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let before =
        numbers(&self::call(lab, &lab.command_of(&lab.fake.path, &["state"]).output().unwrap()));
    numbers(call).into_iter().filter(|n| !before.contains(n)).collect()
}

#[test]
fn the_document_is_adapted_and_all_else_is_as_typed() {
    let lab = lab();
    mark(&lab, "id", &lab.path("root"));
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
        let output = lab.run(arguments);
        let call = call(&lab, &output);
        let got = argv(&call);
        let changed: Vec<_> =
            (0..arguments.len()).filter(|i| got[i + 1] != arguments[*i]).collect();
        assert_eq!((got.len(), changed.len()), (arguments.len() + 1, 1), "{got:?}");
        let number = got[changed[0] + 1].strip_prefix(&format!("{option}/proc/self/fd/")).unwrap();
        assert!(arguments[changed[0]].ends_with('p'), "{got:?}");
        assert_eq!(added(&lab, &call), [number]);
        assert_eq!(call["process_document"], EXPECTED, "{arguments:?}");
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(
        fs::read_to_string(lab.path("p")).unwrap(),
        GIVEN,
        "the caller's file is not touched"
    );
}

#[test]
fn descriptors_that_are_passed_on_are_not_ours() {
    let lab = lab();
    mark(&lab, "id", &lab.path("root"));
    for (listen, preserve, least) in [("", "4", 7), ("2", "4", 9), ("2", "0", 5)] {
        let arguments =
            ["--root", "root", "exec", "--preserve-fds", preserve, "--process", "p", "id"];
        let mut command =
            lab.through_shell(&lab.wrapper(), "exec 3</dev/null 4</dev/null", &arguments);
        command.env("LISTEN_FDS", listen);
        let call = call(&lab, &command.output().unwrap());
        let number = argv(&call)[7].strip_prefix("/proc/self/fd/").unwrap().to_owned();
        assert!(number.parse::<i32>().unwrap() >= least, "{number}");
        assert_eq!(added(&lab, &call), ["3", "4", &number]);
        assert_eq!(call["process_document"], EXPECTED);
    }
    let said = check_untouched(
        &lab,
        &["--root=root", "exec", "--preserve-fds=no", "--process", "p", "id"],
    );
    assert!(said.contains("--preserve-fds"), "{said}");
}

#[test]
fn roots() {
    let lab = lab();
    symlink("root", lab.path("link")).unwrap();
    mark(&lab, "id", &lab.path("root"));
    for (root, is_it) in [("root", true), ("link", true), ("other", false)] {
        let output = lab.run(&["--root", root, "exec", "--process", "p", "id"]);
        let expected = if is_it { EXPECTED } else { GIVEN };
        assert_eq!(call(&lab, &output)["process_document"], expected, "{root}");
    }
    // Without the option, where the runtime keeps them by itself.
    let owner = nri_locate::NridOwner::of(
        &fs::read_to_string("/proc/self/uid_map").unwrap(),
        rustix::process::geteuid().as_raw(),
        Some("/x".into()),
    );
    mark(&lab, "id", &nri_locate::runtime_root("runc", &owner, Some(Path::new("/x"))));
    let output = lab
        .command(&["exec", "--process", "p", "id"])
        .env("XDG_RUNTIME_DIR", "/x")
        .output()
        .unwrap();
    assert_eq!(call(&lab, &output)["process_document"], EXPECTED);
}

#[test]
fn nothing_to_do() {
    let lab = lab();
    let exec = ["--root", "root", "exec", "--process", "p", "id"];
    assert_eq!(check_untouched(&lab, &exec), "", "no marker");
    mark(&lab, "other", &lab.path("root"));
    assert_eq!(check_untouched(&lab, &exec), "", "another container's");
    mark(&lab, "id", &lab.path("bundle"));
    assert_eq!(check_untouched(&lab, &exec), "", "another root's");
    mark(&lab, "id", &lab.path("root"));
    for arguments in [
        &["--root=root", "exec", "id", "sh"][..],
        &["--root=root", "exec", "id", "sh", "--process", "p"],
        &["--root=root", "exec", "--env", "A=1", "id", "--process", "p"],
        &["--root=root", "exec", "--unknown", "id", "--process", "p"],
        &["--root=root", "exec"],
        &["--root=root", "state", "--process", "p", "id"],
        &["--help", "--root=root", "exec", "--process", "p", "id"],
    ] {
        assert_eq!(check_untouched(&lab, arguments), "", "{arguments:?}");
    }
    // What the runtime refuses is the runtime's to refuse.
    lab.fake.script(&always(json!({}))).unwrap();
    assert_eq!(check_untouched(&lab, &["--root=root", "exec", "--process", "missing", "id"]), "");
    assert_eq!(check_untouched(&lab, &["--root=root", "exec", "--process", "p", "../id"]), "");
    fs::write(
        lab.path("p"),
        r#"{"env":["A=2","X=1","NEW=3"],"rlimits":[{"type":"RLIMIT_NOFILE"}]}"#,
    )
    .unwrap();
    assert_eq!(check_untouched(&lab, &exec), "", "all of it was given to the exec");
}

#[test]
fn out_of_service() {
    let lab = lab();
    mark(&lab, "id", &lab.path("root"));
    let exec = ["--root", "root", "exec", "--process", "p", "id"];
    let output = lab.command(&exec).env(BYPASS_ENV, "1").output().unwrap();
    assert_eq!(argv(&call(&lab, &output))[1..], exec);
    lab.configure("disable = true");
    assert_eq!(check_untouched(&lab, &exec), "");
}

#[test]
fn what_goes_wrong_is_a_warning() {
    let lab = lab();
    let marker = ExecMarker::path(&lab.path("state"), "id");
    let state = lab.path("state");
    let mode = |mode| fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
    let exec = ["--log=log", "--log-format=json", "--root=root", "exec", "--process", "p", "id"];
    let check = |because: &str| {
        let _ = fs::remove_file(lab.path("log"));
        let said = check_untouched(&lab, &exec);
        assert_eq!(said.lines().count(), 1, "{said}");
        let log: Value = serde_json::from_slice(&fs::read(lab.path("log")).unwrap()).unwrap();
        assert_eq!(log["level"], "warning");
        for text in [said.as_str(), log["msg"].as_str().unwrap()] {
            assert!(text.contains(because) && text.contains("exec in id"), "{because:?} in {text}");
        }
    };
    fs::write(&marker, "{\"containers\": [{}]}").unwrap();
    check("exec/id.json");
    fs::write(&marker, vec![b' '; (4 << 20) + 1]).unwrap();
    check("larger than");
    mark(&lab, "id", &lab.path("root"));
    mode(0o777);
    check("is writable by another user");
    mode(0o700);
    for (document, because) in [
        ("{\"env\":", "EOF"),
        ("[]", "process"),
        ("{\"env\":[1]}", "env"),
        ("{\"rlimits\":{}}", "rlimits"),
    ] {
        fs::write(lab.path("p"), document).unwrap();
        check(because);
    }
    fs::write(lab.path("p"), vec![b' '; (4 << 20) + 1]).unwrap();
    check("larger than");
    // What can be read once only is left to the runtime.
    let with_pipe = ["-c", "printf '{\"env\":[]}' | \"$@\"", "sh"];
    let mut pipe = lab.command_of(Path::new("/bin/sh"), &with_pipe);
    pipe.arg(lab.wrapper()).args(["--root=root", "exec", "--process", "/dev/stdin", "id"]);
    let output = pipe.output().unwrap();
    assert!(stderr(&output).contains("not a regular file"), "{}", stderr(&output));
    assert_eq!(call(&lab, &output)["process_document"], "{\"env\":[]}");
}
