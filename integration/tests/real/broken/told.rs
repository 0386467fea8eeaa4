//! What is said of a broken installation, and of break-glass, by `nrictl`; and whose file it must
//! be.

use super::{
    breakages,
    fakes::{Fake, Manner},
    site::{Policy, Site},
};
use nri_integration::*;
use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt, chown},
    process::Command,
};

fn each(name: &str, test: impl Fn(&Site)) {
    for_each_runtime(name, |runtime| {
        test(&Site::new(runtime, Policy::Default, &breakages::nrid_is_missing()))
    });
}

/// `nrictl`, where this node's own directory is `/etc`.
fn ctl(site: &Site, arguments: &[&str]) -> Ended {
    let mut command = Command::new(site.bin.join("nrictl"));
    command.arg("--config").arg(site.node.config()).args(arguments);
    site.node.run(site.with_the_file(&command))
}

#[test]
fn doctor_looks_at_the_rest_where_nrid_hangs() {
    each("doctor of an nrid that hangs", |site| {
        fs::create_dir(site.node.state_dir()).unwrap();
        let _fake = Fake::accepting(&site.node.state_dir().join("control.sock"), Manner::Silent);
        let said = site.node.ctl(&["doctor"]);
        assert_eq!(said.code, Some(4), "{}", said.err());
        let (out, socket) = (said.out(), site.node.state_dir().join("control.sock"));
        let line = out
            .lines()
            .find(|line| line.starts_with("PROBLEM nrid"))
            .unwrap_or_else(|| panic!("{out}"));
        assert!(line.contains(socket.to_str().unwrap()), "{out}");
        assert!(out.contains("plugins"), "{out}");
    });
}

#[test]
fn doctor_and_status_tell_of_break_glass() {
    each("break-glass is told", |site| {
        let told = "/etc/nri-container-runtime/bypass exists: no plugin is asked about anything";
        let check = |code| {
            let status = ctl(site, &["status"]);
            assert_eq!(status.code, Some(code));
            assert!(status.out().contains(told), "{}", status.out());
            let doctor = ctl(site, &["doctor"]);
            assert!(
                doctor.out().contains(&format!("note    bypass         {told}")),
                "{}",
                doctor.out()
            );
            let json: serde_json::Value =
                serde_json::from_str(&ctl(site, &["status", "--json"]).out()).unwrap();
            assert_eq!(json["bypass"], true);
        };
        check(3);
        site.node.ctl(&["start"]).success();
        check(0);
        // Above all with a configuration that is why it was made.
        fs::write(site.node.config(), "nonsense = \n").unwrap();
        assert!(ctl(site, &["doctor"]).out().contains(told));
        site.configure("");
        let without = site.node.ctl(&["status"]).success().out();
        assert!(!without.contains("bypass"), "{without}");
    });
}

/// Who may not change the configuration may not take containers away from plugins either.
#[test]
fn a_file_that_others_could_have_made_does_not_count() {
    each("break-glass of others", |site| {
        fs::remove_file(site.bin.join("nrid")).unwrap();
        let dir = site.node.path("etc/nri-container-runtime");
        let file = dir.join("bypass");
        let create = |name: &str| {
            let id = site.node.id(name);
            let bundle = site.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
            let mut command = site.wrapper();
            command.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
            site.node.run(site.with_the_file(&command))
        };
        let refused = |name: &str, why: &str| {
            let ended = create(name);
            let err = ended.err();
            assert_eq!(ended.code, Some(1), "{err}");
            let warning =
                format!("bypass is not trusted, ignored: /etc/nri-container-runtime{why}");
            assert!(err.contains(&warning) && err.contains("no executable nrid"), "{err}");
            let doctor = ctl(site, &["doctor"]).out();
            assert!(doctor.contains("PROBLEM bypass"), "{doctor}");
        };
        fs::set_permissions(&dir, Permissions::from_mode(0o777)).unwrap();
        refused("directory", " is writable by everybody");
        fs::set_permissions(&dir, Permissions::from_mode(0o755)).unwrap();
        chown(&file, Some(47_114), None).unwrap();
        refused("file", "/bypass belongs to user 47114");
        chown(&file, Some(0), None).unwrap();
        create("ours").success();
    });
}
