//! Tests of engines with mount namespaces of their own. `nrid` is in the mount namespace of process
//! 1, but looks up the paths that an engine passes in the mount namespace of the engine's runtime.

use super::host::*;
use nri_integration::*;
use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

#[test]
fn a_plugin_that_the_first_caller_cannot_see_adjusts_containers() {
    for_each_runtime("covered plugins", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let host = Host::new();
        let cover = format!("mount -t tmpfs none '{}'", node.path("plugins").display());
        for (name, enter, first) in [("first", UNSHARE, cover.as_str()), ("second", HERE, "true")] {
            let id = node.id(name);
            let bundle = node.bundle(&id).make();
            node.run(host.command(enter, first, &create(&node, &bundle, &id))).success();
            assert_eq!(node.adjusted(&id)["linux"]["resources"]["pids"]["limit"], 77, "{name}");
            let delete = wrapper(&node, &["delete", "--force", &id]);
            host.run(&node, &delete).success();
        }
    });
}

#[test]
fn mount_propagation_is_checked_in_the_mount_namespace_of_the_runtime() {
    for_each_runtime("propagation", |runtime| {
        let node = Node::new(runtime);
        let source = node.path("source");
        std::fs::create_dir(&source).unwrap();
        let mount = format!(
            "[[create.mounts]]\ndestination = '/mnt'\nsource = {source:?}\ntype = 'bind'\n\
             options = ['rbind', 'rslave']\n"
        );
        node.launch("10-adjust", &Program::Adjust, &mount);
        let make = |propagation: &str| {
            format!(
                "mount --bind '{0}' '{0}' && mount --make-{propagation} '{0}'",
                source.display()
            )
        };
        // `rslave` requires that the runtime sees the source on a shared mount.
        for (name, of_host, of_engine, is_created) in
            [("a", "private", "shared", true), ("b", "shared", "private", false)]
        {
            let host = Host::new();
            node.run(host.command(HERE, &make(of_host), &Command::new("true"))).success();
            host.start_nrid(&node);
            let id = node.id(name);
            let bundle = node.bundle(&id).make();
            let create = create(&node, &bundle, &id);
            let created = node.run(host.command(UNSHARE, &make(of_engine), &create));
            if is_created {
                created.success();
                let delete = wrapper(&node, &["delete", "--force", &id]);
                host.run(&node, &delete).success();
            } else {
                let refusal = created.refusal();
                assert!(refusal.contains("rslave") && refusal.contains("private"), "{refusal}");
            }
        }
    });
}

#[test]
fn nrid_calls_the_runtime_in_the_engines_mount_namespace_also_after_a_restart() {
    for_each_runtime("private root", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, "[create.resources]\npids = 77\n");
        let host = Host::new();
        host.start_nrid(&node);
        // The engine has a file system of its own at the root directory of its runtime.
        std::fs::create_dir(node.root()).unwrap();
        let first = format!("mount -t tmpfs none '{}' && echo $$", node.root().display());
        let mut sleep = Command::new("sleep");
        sleep.arg("1000000");
        let mut engine = host.command(UNSHARE, &first, &sleep);
        let mut engine = engine.stdout(Stdio::piped()).spawn().unwrap();
        let mut pid = String::new();
        BufReader::new(engine.stdout.take().unwrap()).read_line(&mut pid).unwrap();
        let enter = ["nsenter", "--target", pid.trim(), "--mount", "--"];

        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        node.run(host.command(&enter, "true", &create(&node, &bundle, &id))).success();
        let verify = || host.run(&node, &ctl(&node, &["verify"])).success().out();
        // nrid finds the cgroup by the process id, which only the runtime knows.
        assert!(verify().contains("77"), "{}", verify());

        host.run(&node, &ctl(&node, &["stop"])).success();
        host.start_nrid(&node);
        wait_until("Synchronize", || {
            let events = journal.events(&id);
            events.iter().any(|event| event == "Synchronize").then_some(())
        });
        assert!(!journal.events(&id).iter().any(|event| event == "StopContainer"));
        // nrid receives no request for this deletion, so it has to detect the deletion by itself.
        let mut delete = node.runtime().command(&node.root());
        delete.args(["delete", "--force", &id]);
        node.run(host.command(&enter, "true", &delete)).success();
        journal.wait_for("RemovePodSandbox", &id);
        wait_until("the end of the bundle", || node.own_bundle(&id).is_none().then_some(()));
        drop(host);
        engine.wait().unwrap();
    });
}
