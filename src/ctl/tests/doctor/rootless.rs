//! Findings of a user without root, on hosts with other cgroups.

use crate::site::{Findings, Site};
use rustix::process::geteuid;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
};

/// A user without rights.
const NOBODY: u32 = 65534;

/// Returns the findings of a user on a host with these cgroups: a shell script that makes them
/// below its working directory. `None` if that is not possible here.
fn doctor(site: &Site, cgroups: &str) -> Option<Findings> {
    if !geteuid().is_root() {
        println!("skipped: only root can change to another user");
        return None;
    }
    let (dir, home) = (site.path(""), site.path("home"));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir_all(&home).unwrap();
    chown(&home, Some(NOBODY), None).unwrap();
    chown(site.path("s"), Some(NOBODY), None).unwrap();
    let script = format!(
        "set -e; mount -t tmpfs -o mode=755 none /sys/fs/cgroup; cd /sys/fs/cgroup; {cgroups}; \
         mount -t tmpfs -o mode=755 none /run; mkdir -p /run/systemd/system; cd /; \
         cp \"$0\" '{dir}/nrictl'; \
         exec setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \
         env -i HOME='{home}' USER=no-such-user '{dir}/nrictl' \"$@\"",
        dir = dir.display(),
        home = home.display()
    );
    Some(site.doctor_by(site.unshared(&script)?))
}

#[test]
fn a_user_without_cgroup_v2_cannot_set_resources() {
    let site = Site::new("");
    let Some(findings) = doctor(&site, "mkdir memory") else { return };
    let text = findings.check("rootless-cgroups", "warning", "this host has cgroup v1");
    assert!(text.contains("(cpu, cpuset, io, memory, pids)"), "{text}");
    assert!(text.contains("systemd.unified_cgroup_hierarchy=1"), "{text}");
    let text = findings.check("rootless-limits", "info", "RDT classes, devices without a node");
    assert!(text.contains("(open files: "), "{text}");
    let text = findings.check("rootless-session", "info", "the last session of no-such-user");
    assert!(text.contains("loginctl enable-linger"), "{text}");
}

#[test]
fn controllers_that_are_not_delegated_to_a_user_are_named() {
    let manager = format!("user.slice/user-{NOBODY}.slice/user@{NOBODY}.service");
    let with = |controllers: &str| {
        format!(
            "echo cpu >cgroup.controllers; mkdir -p {manager}; \
             echo '{controllers}' >{manager}/cgroup.controllers"
        )
    };
    let site = Site::new("");
    let Some(findings) = doctor(&site, &with("memory pids")) else { return };
    let expected = "not delegated to this user: cpu, cpuset, io;";
    let text = findings.check("rootless-cgroups", "warning", expected);
    assert!(text.contains("systemctl edit user@.service"), "{text}");
    let findings = doctor(&site, &with("cpuset cpu io memory hugetlb pids")).unwrap();
    findings.check("rootless-delegated", "ok", "delegated to this user");
    assert!(findings.texts("rootless-cgroups").is_empty());
    // Without a service manager of the user, it is not known what an engine gets.
    let findings = doctor(&site, "echo cpu >cgroup.controllers").unwrap();
    for code in ["rootless-cgroups", "rootless-delegated"] {
        assert!(findings.texts(code).is_empty(), "{code}");
    }
}

#[test]
fn root_has_no_findings_about_users() {
    if geteuid().is_root() {
        let findings = Site::new("").doctor();
        assert!(findings.texts("rootless-limits").is_empty());
    }
}
