//! No `nrid`, one that is started, and one that does not do its work.

use crate::lab::{Act, Lab, Server, always, argv, stderr};
use nri_control::{Reply, Request, Substitute};
use nri_locate::{BYPASS_ENV, BYPASS_FILE};
use nri_tests::fake_runtime::FakeRuntime;
use serde_json::json;
use std::process::Output;

const NEEDING: [&str; 4] = ["create", "run", "restore", "start"];
const PASSING: [&str; 2] = ["update", "delete"];

/// A program beside the wrapper that is called nrid and does what `step` says.
fn nrid(lab: &Lab, step: serde_json::Value) -> FakeRuntime {
    let directory = lab.beside("");
    let fake = FakeRuntime::install(&directory, "nrid").unwrap();
    fake.script(&always(step)).unwrap();
    fake
}

fn check_fails(output: &Output, because: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    for part in [because, &format!("{BYPASS_ENV}=1"), BYPASS_FILE] {
        assert!(said.contains(part), "{part:?} in {said}");
    }
}

#[test]
fn an_nrid_that_does_not_start() {
    let lab = Lab::new();
    let nrid = nrid(&lab, json!({"stdout": "cannot read /opt/nri/plugins\n", "exit": 1}));
    for verb in NEEDING {
        let output = lab.run(&["--log=log", verb, "id"]);
        check_fails(&output, "cannot read /opt/nri/plugins");
        assert!(std::fs::read_to_string(lab.path("log")).unwrap().contains("/opt/nri/plugins"));
        std::fs::remove_file(lab.path("log")).unwrap();
    }
    lab.check_not_called();
    assert_eq!(nrid.calls().len(), NEEDING.len());
    nrid.forget();
    // What concerns only what nrid knows does not start it.
    for verb in PASSING {
        let output = lab.run(&[verb, "id"]);
        assert!(output.status.success());
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(lab.fake.calls().len(), PASSING.len());
    assert_eq!(nrid.calls().len(), 0);
}

/// Engines send all resources again (containerd's CRI, Podman 5): what plugins set would be gone.
#[test]
fn an_update_starts_an_nrid_where_one_has_kept_records() {
    let lab = Lab::new();
    let nrid = nrid(&lab, json!({"stdout": "cannot read /opt/nri/plugins\n", "exit": 1}));
    let records = lab.path("state").join(nri_control::RECORDS_DIR);
    std::fs::create_dir(&records).unwrap();
    let call = |verb: &str| {
        nrid.forget();
        let output = lab.run(&[verb, "id"]);
        assert!(output.status.success());
        (nrid.calls().len(), stderr(&output))
    };
    assert_eq!(call("update"), (0, String::new()));
    std::fs::write(records.join("x.json"), "{}").unwrap();
    let (started, said) = call("update");
    assert_eq!(started, 1);
    assert!(
        said.contains("continuing without NRI: nrid did not start: cannot read /opt/nri/plugins"),
        "{said}"
    );
    // The next nrid finds out by itself what was deleted.
    assert_eq!(call("delete"), (0, String::new()));
    assert_eq!(lab.fake.calls().len(), 3);
}

#[test]
fn no_nrid_at_all() {
    let lab = Lab::new();
    let dirs = [nri_locate::LIBEXEC_DIR].into_iter().chain(nri_locate::SEARCH_PATH.split(':'));
    if let Some(dir) = dirs.into_iter().find(|dir| std::path::Path::new(dir).join("nrid").exists())
    {
        println!("skipped: nrid is installed in {dir}");
        return;
    }
    std::fs::remove_dir(lab.path("state")).unwrap();
    for verb in NEEDING {
        check_fails(&lab.run(&[verb, "id"]), "no executable nrid beside this program");
    }
    assert!(lab.run(&["delete", "id"]).status.success());
    assert!(!lab.path("state").exists(), "nothing is made where nothing can be started");
    assert_eq!(lab.fake.calls().len(), 1);
}

#[test]
fn unreachable_may_pass() {
    let lab = Lab::new();
    nrid(&lab, json!({"stdout": "cannot read /opt/nri/plugins\n", "exit": 1}));
    lab.configure("unreachable = 'pass'");
    for verb in NEEDING {
        lab.fake.forget();
        let output = lab.run(&[verb, "id"]);
        assert!(output.status.success());
        assert_eq!(lab.fake.calls().len(), 1);
        let said = stderr(&output);
        assert!(said.contains("without NRI") && said.contains("/opt/nri/plugins"), "{said}");
    }
}

#[test]
fn one_that_says_nothing_and_one_that_is_too_slow() {
    let lab = Lab::new();
    let nrid = nrid(&lab, json!({}));
    check_fails(&lab.run(&["create", "id"]), "exited without a message");
    lab.configure("start_timeout = '50ms'");
    nrid.script(&always(json!({"until": lab.path("never")}))).unwrap();
    check_fails(&lab.run(&["create", "id"]), "50ms");
    lab.check_not_called();
}

#[test]
fn it_is_started_on_first_use() {
    let lab = Lab::new();
    let nrid = nrid(&lab, json!({"until": lab.path("go"), "stdout": "ready\n"}));
    let mut wrapper = lab.command(&["create", "id"]).spawn().unwrap();
    let call = nrid.wait("nrid is started", |notes| !notes.is_empty()).remove(0);
    let expected =
        ["--background", "--state-dir", &lab.text("state"), "--config", &lab.text("config.toml")];
    assert_eq!(argv(&call)[1..], expected);
    assert_eq!(call["own"]["cwd"], "/");
    let server = Server::proceeding(&lab);
    std::fs::write(lab.path("go"), "").unwrap();
    assert!(wrapper.wait().unwrap().success());
    assert_eq!(server.heard().len(), 2);
    assert_eq!(lab.fake.calls().len(), 1);
}

#[test]
fn one_that_hangs_up() {
    let lab = Lab::new();
    let _server = Server::start(&lab, |_| Act::HangUp);
    for verb in NEEDING {
        check_fails(&lab.run(&[verb, "id"]), "closed the connection");
    }
    lab.check_not_called();
    for verb in PASSING {
        let output = lab.run(&[verb, "id"]);
        assert!(output.status.success());
        assert!(stderr(&output).contains("without NRI"), "{}", stderr(&output));
    }
    assert_eq!(lab.fake.calls().len(), PASSING.len());
}

/// An nrid that is ending leaves connections behind that it has not come to.
#[test]
fn one_that_hangs_up_is_asked_again_and_no_more() {
    let lab = Lab::new();
    for verb in NEEDING.into_iter().chain(PASSING) {
        lab.fake.forget();
        let begins = std::sync::atomic::AtomicU32::new(0);
        let server = Server::start(&lab, move |request| match request {
            Request::Begin(_) if begins.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
                Act::HangUp
            }
            Request::Begin(_) => Act::Answer(Reply::Proceed(Substitute::default())),
            _ => Act::Answer(Reply::Done),
        });
        let output = lab.run(&[verb, "--bundle", "bundle", "id"]);
        assert!(output.status.success(), "{verb}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{verb}");
        assert_eq!(lab.fake.calls().len(), 1, "{verb}");
        let heard = server.heard();
        assert_eq!(heard[0], heard[1], "{verb}: the same, descriptors too");
        assert_eq!(server.finished().is_some(), !matches!(verb, "run" | "restore"), "{verb}");
    }
    let server = Server::start(&lab, |_| Act::HangUp);
    lab.run(&["create", "id"]);
    assert_eq!(server.heard().len(), 2);
}

/// The one that ended is followed by one that has to be started.
#[test]
fn one_that_hangs_up_and_is_gone_is_started_anew() {
    let lab = Lab::new();
    let nrid = nrid(&lab, json!({"until": lab.path("go"), "stdout": "ready\n"}));
    let socket = lab.path("state").join(nri_control::CONTROL_SOCKET);
    let ending = Server::start(&lab, move |_| {
        std::fs::remove_file(&socket).unwrap();
        Act::HangUp
    });
    let mut wrapper = lab.command(&["create", "id"]).spawn().unwrap();
    nrid.wait("nrid is started", |notes| !notes.is_empty());
    assert_eq!(ending.heard().len(), 1);
    let server = Server::proceeding(&lab);
    std::fs::write(lab.path("go"), "").unwrap();
    assert!(wrapper.wait().unwrap().success());
    assert_eq!(server.heard().len(), 2);
    assert_eq!(lab.fake.calls().len(), 1);
}

#[test]
fn one_of_another_version_or_with_a_strange_answer() {
    let lab = Lab::new();
    for (reply, because) in [
        (Reply::OtherVersion { version: "9.9".to_owned(), restarting: false }, "9.9"),
        (Reply::Status(Box::default()), "reply of the wrong type"),
    ] {
        let answer = reply.clone();
        let _server = Server::start(&lab, move |_| answer.clone());
        check_fails(&lab.run(&["create", "id"]), because);
        assert!(lab.run(&["delete", "id"]).status.success());
    }
}

#[test]
fn one_that_is_lost_after_the_verb() {
    let lab = Lab::new();
    let _server = Server::start(&lab, |request| match request {
        Request::Begin(_) => Act::Answer(Reply::Proceed(Substitute::default())),
        _ => Act::HangUp,
    });
    for (exit, verb) in [(0, "create"), (0, "start"), (4, "create"), (0, "delete")] {
        lab.fake.script(&always(json!({"exit": exit}))).unwrap();
        assert_eq!(
            lab.run(&[verb, "id"]).status.code(),
            Some(exit),
            "the real runtime's result counts"
        );
    }
}

#[test]
fn delete_goes_on_whatever_nrid_says() {
    let lab = Lab::new();
    let _server = Server::refusing(&lab, "plugin 10-a: no");
    let output = lab.run(&["delete", "id"]);
    assert!(output.status.success());
    assert_eq!(lab.fake.calls().len(), 1);
    assert!(stderr(&output).contains("plugin 10-a: no"), "{}", stderr(&output));
}

#[test]
fn a_stale_socket_counts_as_absent() {
    let lab = Lab::new();
    drop(
        std::os::unix::net::UnixListener::bind(lab.path("state").join(nri_control::CONTROL_SOCKET))
            .unwrap(),
    );
    let output = lab.run(&["delete", "id"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    nrid(&lab, json!({"stdout": "not today\n"}));
    check_fails(&lab.run(&["create", "id"]), "not today");
}
