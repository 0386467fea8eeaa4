//! Findings about a running `nrid`, or one that does not run.

use crate::{
    fake_nrid::{doctor, healthy},
    site::Site,
};
use nri_control::{Inherited, Status};
use nri_files::{CONTROL_SOCKET, OsText, START_FAILURE, UncleanEnd};
use std::{
    fs,
    os::unix::net::UnixListener,
    time::{SystemTime, UNIX_EPOCH},
};

#[test]
fn a_healthy_nrid_is_no_problem() {
    let site = Site::new("");
    let mut status = healthy(&site);
    status.config_digest = digest(&site);
    let findings = doctor(&site, status);
    findings.check("nrid-running", "ok", &format!("process {}", std::process::id()));
    for code in ["configuration-outdated", "nrid-other-version", "plugin-not-active"] {
        assert!(findings.texts(code).is_empty(), "{code}");
    }
}

/// Returns the digest of the configuration, which `sha256sum` computes.
fn digest(site: &Site) -> Option<String> {
    let mut command = std::process::Command::new("sha256sum");
    let output = command.arg(site.path("config.toml")).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().map(str::to_owned)
}

#[test]
fn each_restriction_and_difference_of_an_nrid_is_a_finding() {
    let site = Site::new("");
    let status = Status {
        version: "0.0.1".to_owned(),
        mode: "shadow".to_owned(),
        program: Some(OsText::from("/elsewhere/nrid")),
        restart_error: Some("the new program does not start".to_owned()),
        config_digest: Some("0".repeat(64)),
        problems: vec!["too few descriptors".to_owned()],
        with_edited_bundle: 2,
        inherited: vec![Inherited {
            what: "no_new_privs is set".to_owned(),
            effect: "plugins cannot gain privileges".to_owned(),
            remedy: "start it from a root shell".to_owned(),
        }],
        ..healthy(&site)
    };
    let findings = doctor(&site, status.clone());
    findings.check("nrid-other-version", "problem", "version differs");
    findings.check("shadow-mode", "info", "nothing changes");
    findings.check("nrid-restart-failed", "problem", "the new program does not start");
    findings.check("configuration-outdated", "problem", "config.toml differs");
    findings.check("nrid-limited", "problem", "too few descriptors");
    findings.check("bundles-edited", "info", "2 containers of a version before 0.1.0");
    let inherited = findings.check("inherited-restriction", "info", "no_new_privs is set");
    assert!(inherited.ends_with("start it from a root shell"), "{inherited}");
    let replaced = Status { program_replaced: true, ..status.clone() };
    let findings = doctor(&site, replaced);
    findings.check("nrid-program-replaced", "problem", "/elsewhere/nrid was replaced");
    let other = Status { config: Some(OsText::from("/other.toml")), ..status };
    let findings = doctor(&site, other);
    findings.check("configuration-other-file", "problem", "nrid has read /other.toml");
}

/// The program beside `nrictl` is the one that it would start.
#[test]
fn an_nrid_that_runs_from_elsewhere_is_an_information() {
    let site = Site::new("");
    let beside = std::path::Path::new(env!("CARGO_BIN_EXE_nrictl")).with_file_name("nrid");
    if !beside.exists() {
        return println!("skipped: there is no nrid beside nrictl");
    }
    let program = Some(OsText::from("/elsewhere/nrid"));
    let findings = doctor(&site, Status { program, ..healthy(&site) });
    let text = format!("would start {}", beside.display());
    findings.check("nrid-other-program", "info", &text);
}

#[test]
fn an_nrid_that_does_not_run_is_a_problem_only_if_its_start_failed() {
    let site = Site::new("");
    site.doctor().check("nrid-not-running", "info", "it is not running");
    fs::write(site.path("s").join(START_FAILURE), "no room for the log\n").unwrap();
    let findings = site.doctor();
    findings.check("nrid-start-failed", "problem", "no room for the log");
}

#[test]
fn the_end_of_an_nrid_that_was_killed_is_a_warning_for_a_day() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let cause = "Out of memory: Killed process 7 (nrid)";
    for (ago, code, severity) in
        [(60, "nrid-ended", "warning"), (90_000, "nrid-ended-earlier", "info")]
    {
        let (last_sign, next_start) = (now - ago - 5, now - ago);
        let end = UncleanEnd { pid: 7, last_sign, next_start, cause: Some(cause.to_owned()) };
        let site = Site::new("");
        let findings = doctor(&site, Status { unclean_end: Some(end), ..healthy(&site) });
        let text = "nrid (process 7) ended without a clean stop between 2";
        let found = findings.check(code, severity, text);
        assert!(found.contains(&format!("Z: {cause}\n")), "{found}");
    }
}

#[test]
fn an_nrid_that_does_not_reply_is_a_problem() {
    let site = Site::new("");
    let listener = UnixListener::bind(site.path("s").join(CONTROL_SOCKET)).unwrap();
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let text = site.doctor().check("nrid-unresponsive", "problem", CONTROL_SOCKET);
    // It is found without a connection.
    assert!(text.contains(&format!("end process {}", std::process::id())), "{text}");
}
