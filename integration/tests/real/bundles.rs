//! Tests of unusual bundles: `config.json` is a symbolic link, the bundle is replaced during a
//! creation, the bundle is moved before `config.json` is restored.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    io::Write,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

const PIDS_LIMIT: &str = "[create.resources]\npids = 77\n";

/// Moves `config.json` out of the bundle and replaces it by a symbolic link. Returns the new path.
fn replace_config_by_link(node: &Node, bundle: &Bundle) -> PathBuf {
    let target = node.path("configs").join(bundle.dir().file_name().unwrap());
    fs::create_dir_all(node.path("configs")).unwrap();
    fs::rename(bundle.config(), &target).unwrap();
    symlink(&target, bundle.config()).unwrap();
    target
}

/// Returns whether `config.json` is a symbolic link to `target`.
fn is_linked_to(bundle: &Bundle, target: &Path) -> bool {
    fs::read_link(bundle.config()).is_ok_and(|found| found == target)
}

#[test]
fn a_linked_config_json_is_adjusted_and_the_link_is_restored() {
    for_each_runtime("linked config.json", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, PIDS_LIMIT);

        let id = node.id("created");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let target = replace_config_by_link(&node, &bundle);
        let original = fs::read(&target).unwrap();
        node.create(&bundle, &id).success();
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max"), "77");
        assert!(fs::symlink_metadata(bundle.config()).unwrap().is_file());
        // The second container uses the bundle while `config.json` is still the adjusted file.
        let again = node.id("again");
        node.create(&bundle, &again).success();
        for id in [&id, &again] {
            node.call(&["delete", "--force", id]).success();
        }
        assert!(is_linked_to(&bundle, &target));

        let id = node.id("run");
        let script = "cat /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max 2>/dev/null; true";
        let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", script]).make();
        let target_of_run = replace_config_by_link(&node, &bundle);
        node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id]).success();
        wait_until("the restored link", || is_linked_to(&bundle, &target_of_run).then_some(()));

        // After nrid was killed, the next nrid restores the link.
        let id = node.id("killed");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let target_of_killed = replace_config_by_link(&node, &bundle);
        node.create(&bundle, &id).success();
        let nrid = node.nrid().unwrap();
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
        node.call(&["delete", "--force", &id]).success();
        node.ctl(&["start"]).success();
        wait_until("the restored link", || is_linked_to(&bundle, &target_of_killed).then_some(()));
        assert_eq!(fs::read(&target).unwrap(), original, "the target of the link was written");
    });
}

/// A `poststop` hook gets the path of the bundle and may read `config.json` there: it must find the
/// file that the hooks of earlier stages found.
#[test]
fn poststop_hooks_find_the_adjusted_config_json_in_the_bundle() {
    for_each_runtime("config.json for poststop hooks", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, PIDS_LIMIT);
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let (config, copy) = (bundle.config(), node.path("copy"));
        // Reads the state of the container, because SIGPIPE ends a crun whose hook does not.
        let command = format!("cat >/dev/null && cp '{}' '{}'", config.display(), copy.display());
        bundle.edit(|config| {
            let hook = json!({"path": "/bin/sh", "args": ["sh", "-c", command],
                "env": ["PATH=/bin:/usr/bin"]});
            config["hooks"] = json!({"poststop": [hook]});
        });
        let original = bundle.bytes();
        node.create(&bundle, &id).success();
        let adjusted = bundle.bytes();
        assert_ne!(adjusted, original);
        node.call(&["start", &id]).success();
        node.call(&["kill", &id, "KILL"]).success();
        journal.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        assert!(fs::read(&copy).unwrap() == adjusted, "the hook has read another config.json");
        assert_eq!(bundle.bytes(), original);
    });
}

#[test]
fn another_directory_at_the_bundles_path_is_not_touched() {
    for_each_runtime("another bundle", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, PIDS_LIMIT);
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        node.create(&bundle, &id).success();
        fs::create_dir(node.path("other")).unwrap();
        fs::copy(bundle.config(), node.path("other/config.json")).unwrap();
        fs::write(node.path("other/.config.json.nri"), "another file").unwrap();
        let before = digest_tree(&node.path("other"));
        fs::rename(bundle.dir(), node.path("moved")).unwrap();
        symlink(node.path("other"), bundle.dir()).unwrap();
        node.call(&["delete", "--force", &id]).success();
        assert_eq!(digest_tree(&node.path("other")), before);
    });
}

/// A process with write access to the parent directory continuously replaces the bundle and its
/// `config.json`.
#[test]
fn nothing_outside_of_a_bundle_changes_while_the_bundle_is_replaced() {
    for_each_runtime("exchanged bundle", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, PIDS_LIMIT);
        // Start nrid for `status` below: the wrapper may refuse every creation without starting
        // nrid.
        node.ctl(&["start"]).success();
        let bundle = node.bundle(&node.id("c")).make();
        let victim = node.path("victim");
        fs::create_dir(&victim).unwrap();
        fs::copy(bundle.config(), victim.join("secret")).unwrap();
        fs::write(victim.join(".config.json.nri"), "another file").unwrap();
        let before = digest_tree(&victim);
        let (stop, stop_guard) = StopFlag::new();
        let (mut created, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (original, config) = (fs::read(bundle.config()).unwrap(), bundle.config());
                let aside = node.path("aside");
                while !stop.is_set() {
                    let _ = fs::remove_file(&config);
                    let _ = symlink(victim.join("secret"), &config);
                    let _ = fs::remove_file(&config);
                    let _ = fs::create_dir(&config);
                    let _ = fs::remove_dir(&config);
                    let _ = fs::File::create_new(&config)
                        .and_then(|mut file| file.write_all(&original));
                    std::thread::yield_now();
                    if fs::rename(bundle.dir(), &aside).is_ok() {
                        let _ = symlink(&victim, bundle.dir());
                        std::thread::yield_now();
                        fs::remove_file(bundle.dir()).unwrap();
                        fs::rename(&aside, bundle.dir()).unwrap();
                    }
                }
            });
            let rounds =
                std::env::var("NRI_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
            for n in 0..rounds {
                let id = node.id(&format!("c{n}"));
                match node.create(&bundle, &id).code {
                    Some(0) => created += 1,
                    _ => refused += 1,
                }
                node.call(&["delete", "--force", &id]);
            }
            drop(stop_guard);
        });
        println!("{created} created, {refused} refused");
        assert_eq!(digest_tree(&victim), before);
        assert_eq!(node.status().unwrap()["containers"], 0);
        node.create(&bundle, &node.id("after")).success();
    });
}

/// The engine kills the wrapper while a plugin handles CreateContainer, and writes another
/// `config.json` into the bundle, for the next container.
#[test]
fn the_next_containers_config_json_survives_an_abandoned_creation() {
    let Some(go_plugin) = go_plugin("config.json of the next container") else { return };
    for_each_runtime("config.json of the next container", |runtime| {
        let node = Node::new(runtime);
        let resume = node.path("resume");
        let rule = json!({"until": resume, "adjust": {"annotations": {"a": "b"}}});
        let journal = node.launch("10-slow", &go_plugin, &json!({"rules": [rule]}).to_string());
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        let mut command = node.wrapper();
        command.args(["create", "--bundle"]).arg(bundle.dir()).arg(&id);
        let mut wrapper = command.stdin(std::process::Stdio::null()).spawn().unwrap();
        journal.wait_for("CreateContainer", &id);
        wrapper.kill().unwrap();
        wrapper.wait().unwrap();
        bundle.edit(|config| config["hostname"] = "next".into());
        let next = bundle.bytes();
        fs::write(resume, "").unwrap();
        journal.wait_for("RemoveContainer", &id);
        assert_eq!(bundle.bytes(), next);
        wait_until("the refusal in the log", || {
            node.log().contains("was changed during the request to plugins").then_some(())
        });
        let files = fs::read_dir(bundle.dir()).unwrap().count();
        assert_eq!(files, 1, "the bundle has files besides config.json");
    });
}
