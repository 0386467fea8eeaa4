//! The messages `begin` and `finished` of the wrapper to `nrid`, and the effects of `nrid`'s
//! replies on a verb.

use crate::harness::{Server, WrapperHarness, always, argv, stderr};
use nri_control::{Begin, Exit, Reply, Request, Substitute, Verb};
use nri_files::OsText;
use serde_json::json;
use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

fn texts(words: &[&str]) -> Vec<OsText> {
    words.iter().map(OsText::from).collect()
}

/// Runs the wrapper with these arguments. Returns its begin message, and the number of descriptors
/// that were sent with it.
fn begin(harness: &WrapperHarness, arguments: &[&str]) -> (Begin, usize) {
    let server = Server::proceeding(harness);
    let output = harness.run(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let (Request::Begin(begin), fds) = server.received().remove(0) else { panic!("no begin") };
    (*begin, fds)
}

#[test]
fn a_create_sends_its_arguments_bundle_and_environment() {
    let harness = WrapperHarness::new();
    let (begin, fds) = begin(
        &harness,
        &[
            "--root",
            "some/root",
            "--nri-runtime",
            &harness.text("bin/runc"),
            "--debug",
            "create",
            "--bundle",
            "./bundle",
            "--pid-file",
            "pid",
            "id",
        ],
    );
    assert_eq!(fds, 1, "the descriptor of the bundle directory is sent");
    assert_eq!(begin.verb, Verb::Create);
    assert_eq!(begin.id, "id");
    assert_eq!(begin.runtime, OsText::from(&harness.path("bin/runc")));
    assert_eq!(begin.root, Some(OsText::from(&harness.path("some/root"))));
    assert_eq!(begin.globals, texts(&["--root", "some/root", "--debug"]));
    assert_eq!(begin.arguments, texts(&["--bundle", "./bundle", "--pid-file", "pid", "id"]));
    assert_eq!(
        begin.bundle.unwrap().as_path().canonicalize().unwrap(),
        harness.path("bundle").canonicalize().unwrap()
    );
    assert_eq!(begin.config, Some("config.json".into()));
    assert_eq!(begin.cwd, OsText::from(&harness.dir.path().canonicalize().unwrap()));
    assert!(begin.environment.contains(&OsText::from(&format!("PATH={}", harness.text("bin")))));
    assert_eq!((begin.resources, begin.flag), (None, false));
}

#[test]
fn other_verbs_send_their_flags_and_bundle() {
    let harness = WrapperHarness::new();
    let (run, fds) = begin(&harness, &["run", "-d", "-b", "bundle", "id"]);
    assert_eq!((run.verb, run.flag, fds), (Verb::Run, true, 1));
    let (restore, fds) =
        begin(&harness, &["restore", "--bundle=bundle", "--image-path", "/i", "id"]);
    assert_eq!((restore.verb, restore.flag, fds), (Verb::Restore, false, 1));
    let (start, fds) = begin(&harness, &["start", "id"]);
    assert_eq!((start.verb, start.bundle, start.root, fds), (Verb::Start, None, None, 0));
    let (delete, fds) = begin(&harness, &["delete", "--force", "id"]);
    assert_eq!((delete.verb, delete.flag, fds), (Verb::Delete, true, 0));
}

#[test]
fn without_a_bundle_flag_the_working_directory_is_the_bundle() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    assert!(
        harness
            .command(&["create", "id"])
            .current_dir(harness.path("bundle"))
            .status()
            .unwrap()
            .success()
    );
    let (Request::Begin(begin), _) = server.received().remove(0) else { panic!("no begin") };
    assert_eq!(begin.bundle.unwrap().as_path(), harness.path("bundle").canonicalize().unwrap());
}

#[test]
fn the_config_flag_of_crun_names_another_oci_config() {
    let harness = WrapperHarness::new();
    std::fs::write(harness.path("other.json"), "{}").unwrap();
    let short_option = format!("-f{}", harness.text("other.json"));
    for (option, expected) in [
        ("--config=config.json", OsText::from("config.json")),
        ("--config=other.json", OsText::from(&harness.path("other.json"))),
        (&short_option, OsText::from(&harness.path("other.json"))),
    ] {
        let (begin, _) = begin(&harness, &["create", "-b", "bundle", option, "id"]);
        assert_eq!(begin.config, Some(expected), "{option}");
    }
}

#[test]
fn the_begin_message_has_the_path_of_the_hook_beside_the_wrapper() {
    let harness = WrapperHarness::new();
    std::fs::hard_link(
        nri_tests::fake_runtime::program("nri-oci-hook"),
        harness.beside("nri-oci-hook"),
    )
    .unwrap();
    let (begin, _) = begin(&harness, &["run", "-b", "bundle", "id"]);
    assert_eq!(begin.hook, Some(OsText::from(&harness.beside("nri-oci-hook"))));
}

#[test]
fn arguments_and_variables_that_are_not_utf8_are_sent_unchanged() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    let not_utf8 = OsStr::from_bytes(b"--console-socket=\xff");
    let mut command = harness.command(&["create", "-b", "bundle"]);
    assert!(
        command
            .arg(not_utf8)
            .arg("id")
            .env("ODD", OsStr::from_bytes(b"\xfe"))
            .status()
            .unwrap()
            .success()
    );
    let (Request::Begin(begin), _) = server.received().remove(0) else { panic!("no begin") };
    assert_eq!(begin.arguments[2], OsText::from(not_utf8));
    assert!(begin.environment.contains(&OsText::from(OsStr::from_bytes(b"ODD=\xfe"))));
}

#[test]
fn the_exit_code_and_the_pid_are_reported() {
    let harness = WrapperHarness::new();
    for (step, option, pid) in [
        (json!({"pid_file": "4711"}), "--pid-file=pid", Some(4711)),
        (json!({"pid_file": "4711\n"}), "--pid-file=pid", Some(4711)),
        (json!({"pid_file": "none"}), "--pid-file=pid", None),
        (json!({"pid_file": "4711", "exit": 1}), "--pid-file=pid", None),
        (json!({}), "--no-pivot", None),
    ] {
        let server = Server::proceeding(&harness);
        harness.fake.script(&always(step.clone())).unwrap();
        let code = harness.run(&["create", "-b", "bundle", option, "id"]).status.code().unwrap();
        let finished = server.finished().unwrap();
        assert_eq!((finished.exit, finished.pid), (Exit::Code(code), pid), "{step}");
    }
}

#[test]
fn verbs_that_run_by_execve_send_no_finished_message() {
    let harness = WrapperHarness::new();
    let server = Server::proceeding(&harness);
    assert!(harness.run(&["run", "-b", "bundle", "id"]).status.success());
    assert_eq!(server.received().len(), 1, "only a begin message");
    assert_eq!(harness.fake.calls().len(), 1);
}

#[test]
fn a_verb_runs_by_execve_after_a_bypass_reply() {
    let harness = WrapperHarness::new();
    let server = Server::start(&harness, |_| Reply::Bypass);
    let child = harness.command(&["create", "-b", "bundle", "id"]).spawn().unwrap();
    let pid = child.id();
    assert!(child.wait_with_output().unwrap().status.success());
    assert_eq!(harness.fake.calls()[0]["own"]["pid"], pid);
    assert_eq!(server.received().len(), 1, "only a begin message");
}

#[test]
fn arguments_and_stdin_are_substituted() {
    let harness = WrapperHarness::new();
    harness.fake.script(&always(json!({"stdin": true}))).unwrap();
    let _server = Server::start(&harness, |request| match request {
        Request::Begin(_) => Reply::Proceed(Substitute {
            arguments: Some(texts(&["--resources", "-", "id"])),
            stdin: Some("{\"memory\":{}}".to_owned()),
            exec: false,
        }),
        _ => Reply::Done,
    });
    for verb in ["update", "run"] {
        harness.fake.clear();
        let output = harness.run(&["--root", "/r", verb, "--memory", "1", "id"]);
        assert!(output.status.success(), "{}", stderr(&output));
        let call = &harness.fake.calls()[0];
        assert_eq!(argv(call)[1..], ["--root", "/r", verb, "--resources", "-", "id"]);
        assert_eq!(call["stdin"], "{\"memory\":{}}");
    }
}

#[test]
fn closed_stdin_is_substituted() {
    let harness = WrapperHarness::new();
    harness.fake.script(&always(json!({"stdin": true}))).unwrap();
    let _server = Server::start(&harness, |request| match request {
        Request::Begin(_) => {
            Reply::Proceed(Substitute { stdin: Some("{}".to_owned()), ..Substitute::default() })
        }
        _ => Reply::Done,
    });
    for verb in ["update", "run"] {
        harness.fake.clear();
        let output =
            harness.through_shell(&harness.wrapper(), "exec 0<&-", &[verb, "id"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(harness.fake.calls()[0]["stdin"], "{}");
    }
}

#[test]
fn start_and_delete_run_by_execve_if_nrid_follows_the_process() {
    let harness = WrapperHarness::new();
    harness.fake.script(&always(json!({"exit": 7}))).unwrap();
    let server = Server::start(&harness, |request| match request {
        Request::Begin(begin) => {
            Reply::Proceed(Substitute { exec: begin.follow, ..Substitute::default() })
        }
        _ => Reply::Done,
    });
    for verb in ["start", "delete"] {
        harness.fake.clear();
        let output = harness.run(&["--root", "/r", verb, "id"]);
        assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
        assert_eq!(argv(&harness.fake.calls()[0])[1..], ["--root", "/r", verb, "id"]);
        assert_eq!(server.finished(), None, "{verb}");
    }
}

#[test]
fn a_start_fails_if_nrid_refuses_the_finished_message() {
    let harness = WrapperHarness::new();
    let script = |request: &Request| match request {
        Request::Begin(_) => Reply::Proceed(Substitute::default()),
        _ => Reply::Refused { message: "plugin 10-a: no".to_owned() },
    };
    // After a failure of the runtime, the message is added to its error.
    for (verb, exit, code, is_reported) in
        [("start", 0, 1, true), ("start", 5, 5, true), ("delete", 0, 0, false)]
    {
        let _server = Server::start(&harness, script);
        harness.fake.script(&always(json!({"exit": exit}))).unwrap();
        let output = harness.run(&[verb, "id"]);
        assert_eq!(output.status.code(), Some(code), "{verb} {exit}");
        assert_eq!(stderr(&output).contains("plugin 10-a: no"), is_reported, "{verb} {exit}");
    }
}
