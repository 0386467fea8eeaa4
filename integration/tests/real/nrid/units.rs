//! Tests of sandboxes of systemd units, such as the units of engines: a unit calls the wrapper,
//! which starts `nrid`. The sandbox of the unit must not affect the next container, which the host
//! creates.

use super::host::*;
use nri_integration::*;
use std::{fs, process::Command};

/// Calls `create`, which starts `nrid`, in a unit with these properties; `OWN` in a property stands
/// for the directory of the node. Then creates a container on the host. `works` says whether the
/// runtime can create containers in the unit.
fn check(test: &str, properties: &[&str], works: bool) {
    if !uses_systemd() {
        return limitation(test, "no systemd to start units, as NRI_TEST_SYSTEMD is not set");
    }
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        let adjust = node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let [first, next] = ["first", "next"].map(|name| node.id(name));
        let bundle = node.bundle(&first).make();
        let mut unit = Command::new("systemd-run");
        unit.args(["--quiet", "--wait", "--pipe"]);
        let own_dir = node.path("").display().to_string();
        for property in properties {
            unit.arg("--property").arg(property.replace("OWN", &own_dir));
        }
        unit.arg("--").args(words(&create(&node, &bundle, &first)));
        let created = node.run(unit);
        assert_eq!(created.code == Some(0), works, "{}{}", created.out(), created.err());
        let nrid = node.nrid().expect("create started nrid");
        adjust.wait_for("CreateContainer", &first);

        let waits = node.bundle(&next).arguments(&["/probe", "wait"]).make();
        node.create(&waits, &next).success();
        assert_eq!(node.nrid(), Some(nrid), "the nrid that the unit started does not run any more");
        adjust.wait_for("PostCreateContainer", &next);
        node.call(&["start", &next]).success();
        assert_eq!(node.state(&next).unwrap()["status"], "running");
        let verified = node.ctl(&["verify"]);
        assert_eq!(verified.code, Some(0), "{}{}", verified.out(), verified.err());
        // An update writes to the cgroups, which the unit may see read-only.
        node.call(&["update", "--pids-limit", "55", &next]).success();
        assert_eq!(node.ctl(&["verify"]).code, Some(0));
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/mnt")).unwrap();
        assert_eq!(namespace(&nrid.0.to_string()), namespace("1"));
        assert!(!nrid.cgroups().contains("run-"), "{}", nrid.cgroups());
        for id in [&next, &first] {
            node.call(&["delete", "--force", id]);
        }
        adjust.wait_for("RemovePodSandbox", &next);
    });
}

#[test]
fn a_unit_with_read_only_cgroups_does_not_affect_the_next_container() {
    let properties = [
        "ProtectControlGroups=yes",
        "ProtectSystem=strict",
        "ReadWritePaths=OWN",
        "NoNewPrivileges=yes",
    ];
    check("unit with read-only cgroups", &properties, false);
}

/// The unit has no mount namespace of its own, and setns(2) is forbidden in it.
#[test]
fn a_unit_without_namespaces_does_not_affect_the_next_container() {
    check("unit without namespaces", &["RestrictNamespaces=yes"], false);
}

#[test]
fn a_unit_with_read_only_files_does_not_affect_the_next_container() {
    let properties = [
        "ProtectSystem=strict",
        "ReadWritePaths=OWN",
        "ReadWritePaths=/run",
        "NoNewPrivileges=yes",
    ];
    check("unit with read-only files", &properties, true);
}
