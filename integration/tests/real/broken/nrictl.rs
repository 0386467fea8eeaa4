//! Tests of `nrictl doctor` and `nrictl status` in a broken installation and under break-glass, and
//! the required owner and mode of the break-glass file.

use super::{
    expected::Policy,
    fakes::{Fake, Manner},
    installation::Installation,
};
use nri_integration::*;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

/// Runs a test with an installation for each runtime, under the default policy.
fn for_each_installation(name: &str, test: impl Fn(&Installation)) {
    for_each_runtime(name, |runtime| test(&Installation::new(runtime, Policy::Default, "", false)));
}

/// Calls `nrictl` in a mount namespace where the break-glass file exists.
fn ctl(installation: &Installation, arguments: &[&str]) -> Ended {
    let mut command = Command::new(installation.bin.join("nrictl"));
    command.arg("--config").arg(installation.node.config()).args(arguments);
    installation.node.run(installation.with_break_glass_file(&command))
}

#[test]
fn doctor_reports_all_other_findings_while_nrid_hangs() {
    for_each_installation("doctor of an nrid that hangs", |installation| {
        fs::create_dir(installation.node.state_dir()).unwrap();
        let _fake =
            Fake::accepting(&installation.node.state_dir().join("control.sock"), Manner::Silent);
        let doctor = installation.node.ctl(&["doctor"]);
        assert_eq!(doctor.code, Some(4), "{}", doctor.err());
        let (out, socket) = (doctor.out(), installation.node.state_dir().join("control.sock"));
        let line = out
            .lines()
            .find(|line| line.starts_with("PROBLEM nrid"))
            .unwrap_or_else(|| panic!("no problem of nrid is reported: {out}"));
        assert!(line.contains(socket.to_str().unwrap()), "{out}");
        assert!(out.contains("plugins"), "{out}");
    });
}

#[test]
fn doctor_and_status_report_break_glass() {
    for_each_installation("break-glass is reported", |installation| {
        let reported = "/etc/nri-container-runtime/bypass exists: containers run without NRI";
        let check = |code| {
            let status = ctl(installation, &["status"]);
            assert_eq!(status.code, Some(code));
            assert!(status.out().contains(reported), "{}", status.out());
            let doctor = ctl(installation, &["doctor"]);
            assert!(
                doctor.out().contains(&format!("warning bypass           {reported}")),
                "{}",
                doctor.out()
            );
            let json: serde_json::Value =
                serde_json::from_str(&ctl(installation, &["status", "--json"]).out()).unwrap();
            assert_eq!(json["bypass"], true);
        };
        // Exit code 3 reports that nrid does not run.
        check(3);
        installation.node.ctl(&["start"]).success();
        check(0);
        // Administrators may create the file because the configuration is invalid. The invalid
        // configuration must not prevent the report.
        fs::write(installation.node.config(), "nonsense = \n").unwrap();
        assert!(ctl(installation, &["doctor"]).out().contains(reported));
        installation.configure("");
        let without = installation.node.ctl(&["status"]).success().out();
        assert!(!without.contains("bypass"), "{without}");
    });
}

/// A user who cannot change the configuration must not be able to switch off NRI.
#[test]
fn a_break_glass_file_that_others_could_write_is_ignored() {
    for_each_installation("break-glass of others", |installation| {
        fs::remove_file(installation.bin.join("nrid")).unwrap();
        let dir = installation.node.path("etc/nri-container-runtime");
        let file = dir.join("bypass");
        let create = |name: &str| {
            let id = installation.node.id(name);
            let bundle = installation.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
            let mut command = installation.wrapper();
            command.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
            installation.node.run(installation.with_break_glass_file(&command))
        };
        let check_refused = |name: &str, why: &str| {
            let ended = create(name);
            let err = ended.err();
            assert_eq!(ended.code, Some(1), "{err}");
            let warning =
                format!("bypass is not trusted, ignored: /etc/nri-container-runtime{why}");
            assert!(err.contains(&warning) && err.contains("no executable nrid"), "{err}");
            let doctor = ctl(installation, &["doctor"]).out();
            assert!(doctor.contains("PROBLEM bypass"), "{doctor}");
        };
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        check_refused("directory", " is writable by everybody");
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        chown(&file, Some(47_114), None).unwrap();
        check_refused("file", "/bypass belongs to user 47114");
        chown(&file, Some(0), None).unwrap();
        create("trusted").success();
    });
}
