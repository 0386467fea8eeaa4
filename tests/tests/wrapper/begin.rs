//! What `nrid` is told, and what it can make of a verb.

use crate::lab::{Lab, Server, always, argv, stderr};
use nri_control::{Begin, Exit, OsText, Reply, Request, Substitute, Verb};
use serde_json::json;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

fn texts(words: &[&str]) -> Vec<OsText> {
    words.iter().map(OsText::from).collect()
}

/// The begin that `arguments` led to, and the number of descriptors beside it.
fn begin(lab: &Lab, arguments: &[&str]) -> (Begin, usize) {
    let server = Server::proceeding(lab);
    let output = lab.run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let (Request::Begin(begin), fds) = server.heard().remove(0) else { panic!("no begin") };
    (*begin, fds)
}

#[test]
fn create() {
    let lab = Lab::new();
    let (begin, fds) = begin(
        &lab,
        &[
            "--root",
            "some/root",
            "--nri-runtime",
            &lab.text("bin/runc"),
            "--debug",
            "create",
            "--bundle",
            "./bundle",
            "--pid-file",
            "pid",
            "id",
        ],
    );
    assert_eq!(fds, 1, "the bundle");
    assert_eq!(begin.verb, Verb::Create);
    assert_eq!(begin.id, "id");
    assert_eq!(begin.runtime, OsText::from(&lab.path("bin/runc")));
    assert_eq!(begin.root, Some(OsText::from(&lab.path("some/root"))));
    assert_eq!(begin.globals, texts(&["--root", "some/root", "--debug"]));
    assert_eq!(begin.arguments, texts(&["--bundle", "./bundle", "--pid-file", "pid", "id"]));
    assert_eq!(
        begin.bundle.unwrap().as_path().canonicalize().unwrap(),
        lab.path("bundle").canonicalize().unwrap()
    );
    assert_eq!(begin.config, Some("config.json".into()));
    assert_eq!(begin.cwd, OsText::from(&lab.dir.path().canonicalize().unwrap()));
    assert!(begin.environment.contains(&OsText::from(&format!("PATH={}", lab.text("bin")))));
    assert_eq!((begin.resources, begin.flag), (None, false));
}

#[test]
fn other_verbs() {
    let lab = Lab::new();
    let (run, fds) = begin(&lab, &["run", "-d", "-b", "bundle", "id"]);
    assert_eq!((run.verb, run.flag, fds), (Verb::Run, true, 1));
    let (restore, fds) = begin(&lab, &["restore", "--bundle=bundle", "--image-path", "/i", "id"]);
    assert_eq!((restore.verb, restore.flag, fds), (Verb::Restore, false, 1));
    let (start, fds) = begin(&lab, &["start", "id"]);
    assert_eq!((start.verb, start.bundle, start.root, fds), (Verb::Start, None, None, 0));
    let (delete, fds) = begin(&lab, &["delete", "--force", "id"]);
    assert_eq!((delete.verb, delete.flag, fds), (Verb::Delete, true, 0));
}

#[test]
fn the_bundle_is_the_working_directory_if_not_named() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    assert!(
        lab.command(&["create", "id"]).current_dir(lab.path("bundle")).status().unwrap().success()
    );
    let (Request::Begin(begin), _) = server.heard().remove(0) else { panic!("no begin") };
    assert_eq!(begin.bundle.unwrap().as_path(), lab.path("bundle").canonicalize().unwrap());
}

#[test]
fn another_document() {
    let lab = Lab::new();
    std::fs::write(lab.path("other.json"), "{}").unwrap();
    let elsewhere = format!("-f{}", lab.text("other.json"));
    for (option, expected) in [
        ("--config=config.json", OsText::from("config.json")),
        ("--config=other.json", OsText::from(&lab.path("other.json"))),
        (&elsewhere, OsText::from(&lab.path("other.json"))),
    ] {
        let (begin, _) = begin(&lab, &["create", "-b", "bundle", option, "id"]);
        assert_eq!(begin.config, Some(expected), "{option}");
    }
}

#[test]
fn the_hook_beside_the_wrapper_is_told() {
    let lab = Lab::new();
    std::fs::hard_link(
        nri_tests::fake_runtime::program("nri-oci-hook"),
        lab.beside("nri-oci-hook"),
    )
    .unwrap();
    let (begin, _) = begin(&lab, &["run", "-b", "bundle", "id"]);
    assert_eq!(begin.hook, Some(OsText::from(&lab.beside("nri-oci-hook"))));
}

#[test]
fn bytes_that_are_no_text_arrive() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    let odd = OsStr::from_bytes(b"--console-socket=\xff");
    let mut command = lab.command(&["create", "-b", "bundle"]);
    assert!(
        command
            .arg(odd)
            .arg("id")
            .env("ODD", OsStr::from_bytes(b"\xfe"))
            .status()
            .unwrap()
            .success()
    );
    let (Request::Begin(begin), _) = server.heard().remove(0) else { panic!("no begin") };
    assert_eq!(begin.arguments[2], OsText::from(odd));
    assert!(begin.environment.contains(&OsText::from(OsStr::from_bytes(b"ODD=\xfe"))));
}

#[test]
fn the_end_is_reported_with_the_pid() {
    let lab = Lab::new();
    for (step, option, pid) in [
        (json!({"pid_file": "4711"}), "--pid-file=pid", Some(4711)),
        (json!({"pid_file": "4711\n"}), "--pid-file=pid", Some(4711)),
        (json!({"pid_file": "none"}), "--pid-file=pid", None),
        (json!({"pid_file": "4711", "exit": 1}), "--pid-file=pid", None),
        (json!({}), "--no-pivot", None),
    ] {
        let server = Server::proceeding(&lab);
        lab.fake.script(&always(step.clone())).unwrap();
        let code = lab.run(&["create", "-b", "bundle", option, "id"]).status.code().unwrap();
        let finished = server.finished().unwrap();
        assert_eq!((finished.exit, finished.pid), (Exit::Code(code), pid), "{step}");
    }
}

#[test]
fn exec_ed_verbs_report_nothing_more() {
    let lab = Lab::new();
    let server = Server::proceeding(&lab);
    assert!(lab.run(&["run", "-b", "bundle", "id"]).status.success());
    assert_eq!(server.heard().len(), 1);
    assert_eq!(lab.fake.calls().len(), 1);
}

#[test]
fn bypass_is_an_exec() {
    let lab = Lab::new();
    let server = Server::start(&lab, |_| Reply::Bypass);
    let child = lab.command(&["create", "-b", "bundle", "id"]).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(lab.fake.calls()[0]["own"]["pid"], pid);
    assert_eq!(server.heard().len(), 1);
}

#[test]
fn substituted_arguments_and_stdin() {
    let lab = Lab::new();
    lab.fake.script(&always(json!({"stdin": true}))).unwrap();
    let _server = Server::start(&lab, |request| match request {
        Request::Begin(_) => Reply::Proceed(Substitute {
            arguments: Some(texts(&["--resources", "-", "id"])),
            stdin: Some("{\"memory\":{}}".to_owned()),
        }),
        _ => Reply::Done,
    });
    for verb in ["update", "run"] {
        lab.fake.forget();
        let output = lab.run(&["--root", "/r", verb, "--memory", "1", "id"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let call = &lab.fake.calls()[0];
        assert_eq!(argv(call)[1..], ["--root", "/r", verb, "--resources", "-", "id"]);
        assert_eq!(call["stdin"], "{\"memory\":{}}");
    }
}

#[test]
fn stdin_is_substituted_even_if_it_was_closed() {
    let lab = Lab::new();
    lab.fake.script(&always(json!({"stdin": true}))).unwrap();
    let _server = Server::start(&lab, |request| match request {
        Request::Begin(_) => {
            Reply::Proceed(Substitute { arguments: None, stdin: Some("{}".to_owned()) })
        }
        _ => Reply::Done,
    });
    for verb in ["update", "run"] {
        lab.fake.forget();
        let output =
            lab.through_shell(&lab.wrapper(), "exec 0<&-", &[verb, "id"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(lab.fake.calls()[0]["stdin"], "{}");
    }
}

#[test]
fn a_verb_that_nrid_fails_afterwards() {
    let lab = Lab::new();
    let script = |request: &Request| match request {
        Request::Begin(_) => Reply::Proceed(Substitute::default()),
        _ => Reply::Refused { message: "plugin 10-a: no".to_owned() },
    };
    for (verb, exit, code, said) in
        [("start", 0, 1, true), ("start", 5, 5, false), ("delete", 0, 0, false)]
    {
        let _server = Server::start(&lab, script);
        lab.fake.script(&always(json!({"exit": exit}))).unwrap();
        let output = lab.run(&[verb, "id"]);
        assert_eq!(output.status.code(), Some(code), "{verb} {exit}");
        assert_eq!(stderr(&output).contains("plugin 10-a: no"), said, "{verb} {exit}");
    }
}
