//! The wrapper with an `nrid` that is missing, is started on demand, or fails.

use crate::harness::{Reaction, Server, WrapperHarness, always, argv, stderr};
use nri_control::{Reply, Request, Substitute};
use nri_locate::{BYPASS_ENV, BYPASS_FILE};
use nri_tests::fake_runtime::FakeRuntime;
use serde_json::json;
use std::process::Output;

/// Verbs that fail without nrid.
const NEEDS_NRID: [&str; 4] = ["create", "run", "restore", "start"];
/// Verbs that proceed without nrid.
const PROCEEDS: [&str; 2] = ["update", "delete"];

/// Installs a fake program `nrid` beside the wrapper that performs `step`.
fn nrid(harness: &WrapperHarness, step: serde_json::Value) -> FakeRuntime {
    let directory = harness.beside("");
    let fake = FakeRuntime::install(&directory, "nrid").unwrap();
    fake.script(&always(step)).unwrap();
    fake
}

/// Checks that the wrapper exits with 1 and writes one line to stderr, which has the reason
/// `because` and both ways to bypass NRI.
fn check_fails(output: &Output, because: &str) {
    let error = stderr(output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    for part in [because, &format!("{BYPASS_ENV}=1"), BYPASS_FILE] {
        assert!(error.contains(part), "{part:?} in {error}");
    }
}

#[test]
fn an_nrid_that_does_not_start_fails_only_creations_and_starts() {
    let harness = WrapperHarness::new();
    let nrid = nrid(&harness, json!({"stdout": "cannot read /opt/nri/plugins\n", "exit": 1}));
    for verb in NEEDS_NRID {
        let output = harness.run(&["--log=log", verb, "id"]);
        check_fails(&output, "cannot read /opt/nri/plugins");
        assert!(std::fs::read_to_string(harness.path("log")).unwrap().contains("/opt/nri/plugins"));
        std::fs::remove_file(harness.path("log")).unwrap();
    }
    harness.check_not_called();
    assert_eq!(nrid.calls().len(), NEEDS_NRID.len());
    nrid.clear();
    // Without a record, update and delete do not start nrid.
    for verb in PROCEEDS {
        let output = harness.run(&[verb, "id"]);
        assert!(output.status.success());
        assert_eq!(stderr(&output), "");
    }
    assert_eq!(harness.fake.calls().len(), PROCEEDS.len());
    assert_eq!(nrid.calls().len(), 0);
}

/// containerd's CRI and Podman 5 send all resources with an update. Without nrid, the update would
/// overwrite the values that plugins have set.
#[test]
fn an_update_starts_nrid_if_records_exist() {
    let harness = WrapperHarness::new();
    let nrid = nrid(&harness, json!({"stdout": "cannot read /opt/nri/plugins\n", "exit": 1}));
    let records = harness.path("state").join(nri_files::RECORDS_DIR);
    std::fs::create_dir(&records).unwrap();
    let call = |verb: &str| {
        nrid.clear();
        let output = harness.run(&[verb, "id"]);
        assert!(output.status.success());
        (nrid.calls().len(), stderr(&output))
    };
    assert_eq!(call("update"), (0, String::new()));
    std::fs::write(records.join("x.json"), "{}").unwrap();
    let (started, error) = call("update");
    assert_eq!(started, 1);
    assert!(
        error.contains("continuing without NRI: nrid did not start: cannot read /opt/nri/plugins"),
        "{error}"
    );
    // delete does not start nrid: the next nrid detects deleted containers.
    assert_eq!(call("delete"), (0, String::new()));
    assert_eq!(harness.fake.calls().len(), 3);
}

#[test]
fn a_missing_nrid_program_fails_only_creations_and_starts() {
    let harness = WrapperHarness::new();
    // An installed nrid would be found and started.
    let dirs = [nri_locate::LIBEXEC_DIR].into_iter().chain(nri_locate::SEARCH_PATH.split(':'));
    if let Some(dir) = dirs.into_iter().find(|dir| std::path::Path::new(dir).join("nrid").exists())
    {
        println!("skipped: nrid is installed in {dir}");
        return;
    }
    std::fs::remove_dir(harness.path("state")).unwrap();
    for verb in NEEDS_NRID {
        check_fails(&harness.run(&[verb, "id"]), "no executable nrid beside this program");
    }
    assert!(harness.run(&["delete", "id"]).status.success());
    assert!(!harness.path("state").exists(), "delete does not create the state directory");
    assert_eq!(harness.fake.calls().len(), 1);
}

#[test]
fn creations_proceed_without_nrid_if_unreachable_is_pass() {
    let harness = WrapperHarness::new();
    nrid(&harness, json!({"stdout": "cannot read /opt/nri/plugins\n", "exit": 1}));
    harness.configure("unreachable = 'pass'");
    for verb in NEEDS_NRID {
        harness.fake.clear();
        let output = harness.run(&[verb, "id"]);
        assert!(output.status.success());
        assert_eq!(harness.fake.calls().len(), 1);
        let error = stderr(&output);
        assert!(error.contains("without NRI") && error.contains("/opt/nri/plugins"), "{error}");
    }
}

#[test]
fn an_nrid_that_exits_silently_or_exceeds_start_timeout_is_an_error() {
    let harness = WrapperHarness::new();
    let nrid = nrid(&harness, json!({}));
    check_fails(&harness.run(&["create", "id"]), "exited without a message");
    harness.configure("start_timeout = '50ms'");
    nrid.script(&always(json!({"until": harness.path("never")}))).unwrap();
    check_fails(&harness.run(&["create", "id"]), "50ms");
    harness.check_not_called();
}

#[test]
fn nrid_is_started_on_first_use() {
    let harness = WrapperHarness::new();
    let nrid = nrid(&harness, json!({"until": harness.path("release"), "stdout": "ready\n"}));
    let mut wrapper = harness.command(&["create", "id"]).spawn().unwrap();
    let call = nrid.wait("nrid is started", |records| !records.is_empty()).remove(0);
    let expected = [
        "--background",
        "--state-dir",
        &harness.text("state"),
        "--config",
        &harness.text("config.toml"),
    ];
    assert_eq!(argv(&call)[1..], expected);
    assert_eq!(call["own"]["cwd"], "/");
    let server = Server::proceeding(&harness);
    std::fs::write(harness.path("release"), "").unwrap();
    assert!(wrapper.wait().unwrap().success());
    assert_eq!(server.received().len(), 2, "begin and finished");
    assert_eq!(harness.fake.calls().len(), 1);
}

#[test]
fn an_nrid_that_closes_connections_fails_only_creations_and_starts() {
    let harness = WrapperHarness::new();
    let _server = Server::start(&harness, |_| Reaction::Close);
    for verb in NEEDS_NRID {
        check_fails(&harness.run(&[verb, "id"]), "closed the connection");
    }
    harness.check_not_called();
    for verb in PROCEEDS {
        let output = harness.run(&[verb, "id"]);
        assert!(output.status.success());
        assert!(stderr(&output).contains("without NRI"), "{}", stderr(&output));
    }
    assert_eq!(harness.fake.calls().len(), PROCEEDS.len());
}

/// An nrid that shuts down closes connections that it has not served.
#[test]
fn a_closed_connection_is_retried_once() {
    let harness = WrapperHarness::new();
    for verb in NEEDS_NRID.into_iter().chain(PROCEEDS) {
        harness.fake.clear();
        let begins = std::sync::atomic::AtomicU32::new(0);
        let server = Server::start(&harness, move |request| match request {
            Request::Begin(_) if begins.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 => {
                Reaction::Close
            }
            Request::Begin(_) => Reaction::Reply(Reply::Proceed(Substitute::default())),
            _ => Reaction::Reply(Reply::Done),
        });
        let output = harness.run(&[verb, "--bundle", "bundle", "id"]);
        assert!(output.status.success(), "{verb}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{verb}");
        assert_eq!(harness.fake.calls().len(), 1, "{verb}");
        let received = server.received();
        assert_eq!(received[0], received[1], "{verb}: same request and descriptors");
        assert_eq!(server.finished().is_some(), !matches!(verb, "run" | "restore"), "{verb}");
    }
    let server = Server::start(&harness, |_| Reaction::Close);
    harness.run(&["create", "id"]);
    assert_eq!(server.received().len(), 2, "the begin message and one repetition");
}

/// A shutdown of nrid between connect and reply makes the wrapper start the next nrid.
#[test]
fn an_nrid_that_shuts_down_during_a_request_is_started_again() {
    let harness = WrapperHarness::new();
    let nrid = nrid(&harness, json!({"until": harness.path("release"), "stdout": "ready\n"}));
    let socket = harness.path("state").join(nri_files::CONTROL_SOCKET);
    let stopping_server = Server::start(&harness, move |_| {
        std::fs::remove_file(&socket).unwrap();
        Reaction::Close
    });
    let mut wrapper = harness.command(&["create", "id"]).spawn().unwrap();
    nrid.wait("nrid is started", |records| !records.is_empty());
    assert_eq!(stopping_server.received().len(), 1);
    let server = Server::proceeding(&harness);
    std::fs::write(harness.path("release"), "").unwrap();
    assert!(wrapper.wait().unwrap().success());
    assert_eq!(server.received().len(), 2, "begin and finished");
    assert_eq!(harness.fake.calls().len(), 1);
}

#[test]
fn an_nrid_of_another_version_or_with_a_wrong_reply_is_an_error() {
    let harness = WrapperHarness::new();
    for (reply, because) in [
        (Reply::OtherVersion { version: "9.9".to_owned(), restarting: false }, "9.9"),
        (Reply::Status(Box::default()), "reply of the wrong type"),
    ] {
        let _server = Server::start(&harness, move |_| reply.clone());
        check_fails(&harness.run(&["create", "id"]), because);
        assert!(harness.run(&["delete", "id"]).status.success());
    }
}

#[test]
fn the_exit_code_of_the_runtime_is_returned_if_nrid_fails_after_the_verb() {
    let harness = WrapperHarness::new();
    let _server = Server::start(&harness, |request| match request {
        Request::Begin(_) => Reaction::Reply(Reply::Proceed(Substitute::default())),
        _ => Reaction::Close,
    });
    for (exit, verb) in [(0, "create"), (0, "start"), (4, "create"), (0, "delete")] {
        harness.fake.script(&always(json!({"exit": exit}))).unwrap();
        assert_eq!(
            harness.run(&[verb, "id"]).status.code(),
            Some(exit),
            "the exit code of the real runtime"
        );
    }
}

#[test]
fn a_delete_proceeds_if_nrid_refuses() {
    let harness = WrapperHarness::new();
    let _server = Server::refusing(&harness, "plugin 10-a: no");
    let output = harness.run(&["delete", "id"]);
    assert!(output.status.success());
    assert_eq!(harness.fake.calls().len(), 1);
    assert!(stderr(&output).contains("plugin 10-a: no"), "{}", stderr(&output));
}

#[test]
fn a_stale_control_socket_counts_as_a_missing_nrid() {
    let harness = WrapperHarness::new();
    drop(
        std::os::unix::net::UnixListener::bind(
            harness.path("state").join(nri_files::CONTROL_SOCKET),
        )
        .unwrap(),
    );
    let output = harness.run(&["delete", "id"]);
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    nrid(&harness, json!({"stdout": "not today\n"}));
    check_fails(&harness.run(&["create", "id"]), "not today");
}
