//! Tests of bundles: `nrid` never changes the engine's, and the runtime gets one of `nrid`, also if
//! `config.json` is a symbolic link, or is replaced by another process at any time.

use nri_integration::*;
use rustix::process::Signal;
use serde_json::json;
use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

const PIDS_LIMIT: &str = "[create.resources]\npids = 77\n";

/// Commands of a hook: they set `bundle` to the path in the state on standard input.
const BUNDLE_OF_STATE: &str =
    r#"bundle=$(sed -n 's/.*"bundle": *"\([^"]*\)".*/\1/p' | tr -d '\\')"#;

/// Moves `config.json` out of the bundle and replaces it by a symbolic link. Returns the new path.
fn replace_config_by_link(node: &Node, bundle: &Bundle) -> PathBuf {
    let target = node.path("configs").join(bundle.dir().file_name().unwrap());
    fs::create_dir_all(node.path("configs")).unwrap();
    fs::rename(bundle.config(), &target).unwrap();
    symlink(&target, bundle.config()).unwrap();
    target
}

fn install_rules(node: &Node, text: &str) {
    fs::write(node.path("conf.d/50-rules.conf"), text).unwrap();
    symlink(node.program("nri-rules"), node.path("plugins/50-rules")).unwrap();
}

#[test]
fn a_linked_config_json_is_adjusted_and_the_link_stays() {
    for_each_runtime("linked config.json", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, PIDS_LIMIT);
        let id = node.id("created");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.edit(|config| drop(config["linux"].as_object_mut().unwrap().remove("cgroupsPath")));
        let target = replace_config_by_link(&node, &bundle);
        let original = fs::read(&target).unwrap();
        // The second container uses the bundle at the same time.
        let ids = [id, node.id("again")];
        for id in &ids {
            node.create(&bundle, id).success();
            assert_eq!(node.adjusted(id)["linux"]["resources"]["pids"]["limit"], 77);
        }
        for id in &ids {
            node.call(&["delete", "--force", id]).success();
            wait_until("the end of the bundle", || node.own_bundle(id).is_none().then_some(()));
        }
        assert_eq!(fs::read_link(bundle.config()).unwrap(), target);
        assert_eq!(fs::read(&target).unwrap(), original, "the target of the link was written");
    });
}

/// A `poststop` hook gets the path of the bundle and may read `config.json` there: it must find the
/// file that the hooks of earlier stages found.
#[test]
fn hooks_find_the_adjusted_config_json_in_the_bundle_of_their_state() {
    for_each_runtime("config.json for hooks", |runtime| {
        let node = Node::new(runtime);
        let journal = node.launch("10-adjust", &Program::Adjust, PIDS_LIMIT);
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let copy = |stage: &str| node.path(stage);
        bundle.edit(|config| {
            let hook = |stage: &str| {
                let copy = copy(stage);
                let command =
                    format!("{BUNDLE_OF_STATE} && cp \"$bundle/config.json\" '{}'", copy.display());
                json!([{"path": "/bin/sh", "args": ["sh", "-c", command],
                    "env": ["PATH=/bin:/usr/bin"]}])
            };
            config["hooks"] = ["createRuntime", "poststart", "poststop"]
                .into_iter()
                .map(|stage| (stage.to_owned(), hook(stage)))
                .collect();
        });
        let original = bundle.bytes();
        node.create(&bundle, &id).success();
        let adjusted = fs::read(node.own_bundle(&id).unwrap().join("config.json")).unwrap();
        node.call(&["start", &id]).success();
        node.call(&["kill", &id, "KILL"]).success();
        journal.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        for stage in ["createRuntime", "poststart", "poststop"] {
            wait_until(stage, || copy(stage).exists().then_some(()));
            let found = fs::read(copy(stage)).unwrap();
            assert!(found == adjusted, "the {stage} hook has read another config.json");
        }
        assert_eq!(bundle.bytes(), original);
        wait_until("the end of the bundle", || node.own_bundle(&id).is_none().then_some(()));
    });
}

/// A process with write access to the bundle continuously exchanges its `config.json` between one
/// that a plugin accepts and one that it refuses, as file and as link. What runs is what the plugin
/// has seen.
fn check_exchanged_config(what: &str, rules: &str) {
    for_each_runtime(what, |runtime| {
        let node = Node::new(runtime);
        install_rules(&node, rules);
        node.ctl(&["start"]).success();
        let bundle = node.bundle(&node.id("c")).arguments(&["/bin/echo", "accepted"]).make();
        let accepted = bundle.bytes();
        let refused = String::from_utf8(accepted.clone()).unwrap().replace("accepted", "forbidden");
        let (target, temporary) = (node.path("refused.json"), node.path("next"));
        fs::write(&target, &refused).unwrap();
        let rounds =
            std::env::var("NRI_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(30);
        let (stop, stop_guard) = StopFlag::new();
        let mut outcomes = [0; 2];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.is_set() {
                    let _ = symlink(&target, &temporary);
                    fs::rename(&temporary, bundle.config()).unwrap();
                    std::thread::yield_now();
                    fs::write(&temporary, &accepted).unwrap();
                    fs::rename(&temporary, bundle.config()).unwrap();
                    std::thread::yield_now();
                    fs::write(&temporary, &refused).unwrap();
                    fs::rename(&temporary, bundle.config()).unwrap();
                    std::thread::yield_now();
                    fs::write(&temporary, &accepted).unwrap();
                    fs::rename(&temporary, bundle.config()).unwrap();
                }
            });
            for n in 0..rounds {
                let id = node.id(&format!("c{n}"));
                let dir = bundle.dir().to_str().unwrap();
                let ran = node.call(&["run", "--bundle", dir, &id]);
                assert!(!ran.out().contains("forbidden"), "round {n}: a refused container ran");
                outcomes[usize::from(ran.code == Some(0))] += 1;
            }
            drop(stop_guard);
        });
        println!("{} ran, {} were refused", outcomes[1], outcomes[0]);
        assert!(!outcomes.contains(&0), "only one of the two files was read");
        wait_until("the end of all records", || (node.status()?["containers"] == 0).then_some(()));
    });
}

const REFUSE: &str =
    "rules:\n- name: forbidden\n  match: '\"forbidden\" in command'\n  refuse: never\n";

#[test]
fn an_exchanged_config_json_that_is_refused_never_runs() {
    check_exchanged_config("exchanged config.json", REFUSE);
}

#[test]
fn an_exchanged_config_json_that_is_adjusted_and_refused_never_runs() {
    let adjust = "- name: all\n  set: {env: {A: b}}\n";
    check_exchanged_config("exchanged config.json, adjusted", &format!("{REFUSE}{adjust}"));
}

/// An engine kills the wrapper while a plugin handles CreateContainer, and writes another
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
        let mut wrapper = command.stdin(Stdio::null()).spawn().unwrap();
        journal.wait_for("CreateContainer", &id);
        wrapper.kill().unwrap();
        wrapper.wait().unwrap();
        bundle.edit(|config| config["hostname"] = "next".into());
        let next = digest_tree(bundle.dir());
        fs::write(resume, "").unwrap();
        journal.wait_for("RemoveContainer", &id);
        wait_until("the end of the bundle", || node.own_bundle(&id).is_none().then_some(()));
        assert_eq!(digest_tree(bundle.dir()), next);
    });
}

/// After a power failure the state directory is empty, and the bundle of a `run` is as it was: the
/// engine creates the container again, and the plugins' hooks are in it once.
#[test]
fn a_bundle_is_created_again_after_a_power_failure() {
    for_each_runtime("bundle after a power failure", |runtime| {
        let node = Node::new(runtime);
        let hooked = node.path("hooked");
        let hook = format!(
            "[[create.hooks]]\nstage = 'create_runtime'\npath = '/bin/sh'\n\
             args = ['sh', '-c', 'echo >>{}']\n",
            hooked.display()
        );
        node.launch("10-adjust", &Program::Adjust, &hook);
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        let dir = bundle.dir().to_str().unwrap();
        for boot in 1..=3 {
            node.call(&["run", "--detach", "--bundle", dir, &id]).success();
            assert_eq!(fs::read_to_string(&hooked).unwrap().len(), boot);
            node.nrid().unwrap().signal(Signal::KILL);
            node.bare(&["delete", "--force", &id]).success();
            fs::remove_dir_all(node.state_dir()).unwrap();
        }
        // With the runtime alone, too.
        node.bare(&["run", "--detach", "--bundle", dir, &id]).success();
        node.bare(&["delete", "--force", &id]).success();
    });
}

/// A runtime that is a wrapper itself, and rewrites the `config.json` of the bundle that it gets.
#[test]
fn an_inner_wrapper_leaves_nothing_in_the_engines_bundle() {
    for_each_runtime("inner wrapper", |runtime| {
        let dir = tempfile::tempdir().unwrap();
        let inner = Runtime { path: dir.path().join(runtime.name), ..runtime.clone() };
        write_program(
            &inner.path,
            &format!(
                "#!/bin/sh\nprevious=\nfor argument; do\n\
                 case $previous in --bundle) sed -i 's/\"hostname\": *\"[^\"]*\"/\"hostname\": \
                 \"inner\"/' \"$argument/config.json\" ;; esac\nprevious=$argument\ndone\n\
                 exec '{}' \"$@\"\n",
                runtime.path.display()
            ),
        );
        let node = Node::new(&inner);
        node.launch("10-adjust", &Program::Adjust, "[create.env]\nset = { A = 'b' }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", "hostname; echo $A"]).make();
        bundle.edit(|config| config["hostname"] = "outer".into());
        let original = bundle.bytes();
        let run = node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id]).success();
        assert_eq!(run.out(), "inner\nb\n");
        assert_eq!(bundle.bytes(), original);
    });
}

/// Relative paths mean the same in the bundle of `nrid`, also if the engine's bundle is behind a
/// symbolic link.
#[test]
fn relative_paths_are_those_of_the_engines_bundle() {
    for_each_runtime("relative paths", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.env]\nset = { A = 'b' }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/cat", "/mounted/file"]).make();
        fs::create_dir(bundle.dir().join("data")).unwrap();
        fs::write(bundle.dir().join("data/file"), "of the bundle").unwrap();
        bundle.edit(|config| {
            let mount = json!({"destination": "/mounted", "type": "bind", "source": "data",
                "options": ["rbind", "ro"]});
            config["mounts"].as_array_mut().unwrap().push(mount);
        });
        let link = node.path("link");
        symlink(bundle.dir(), &link).unwrap();
        let call = |dir: &Path| {
            let dir = dir.to_str().unwrap();
            node.call(&["run", "--bundle", dir, "--pid-file", "pid", &id]).success().out()
        };
        assert_eq!(call(bundle.dir()), "of the bundle");
        assert_eq!(call(&link), "of the bundle");
        bundle.edit(|config| {
            let root = PathBuf::from(config["root"]["path"].as_str().unwrap());
            let root = root.strip_prefix(node.path("")).unwrap();
            config["root"]["path"] = format!("../.././{}", root.display()).into();
        });
        assert_eq!(call(&link), "of the bundle");
    });
}

/// An engine opens the bundle to the root of the container's user namespace, in which hooks of the
/// stage `createContainer` run.
#[test]
fn hooks_in_a_user_namespace_can_read_the_bundle() {
    let test = "hooks in a user namespace";
    for_each_runtime(test, |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "[create.env]\nset = { A = 'b' }\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/bin/echo", "runs"]).make();
        bundle.edit(|config| {
            let script = format!("{BUNDLE_OF_STATE} && head -c 1 \"$bundle/config.json\"");
            config["hooks"] = json!({"createContainer": [{"path": "/bin/sh",
                "args": ["sh", "-c", script], "env": ["PATH=/bin:/usr/bin"]}]});
            let linux = &mut config["linux"];
            linux["namespaces"].as_array_mut().unwrap().push(json!({"type": "user"}));
            let mapping = json!([{"containerID": 0, "hostID": 100_000, "size": 65536}]);
            (linux["uidMappings"], linux["gidMappings"]) = (mapping.clone(), mapping);
        });
        let chmod = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for dir in bundle.dir().ancestors().skip(1).take_while(|dir| *dir != Path::new("/tmp")) {
            chmod(dir, 0o711);
        }
        chown(bundle.dir(), None, Some(100_000)).unwrap();
        chmod(bundle.dir(), 0o710);
        chmod(&bundle.config(), 0o644);
        // Not from /dev/null, which runtimes would give to the root of the user namespace.
        let run = |mut command: Command| {
            command.args(["run", "--bundle"]).arg(bundle.dir()).arg(&id);
            command.stdin(fs::File::open(bundle.config()).unwrap());
            node.run(command)
        };
        let bare = run(node.runtime().command(&node.root()));
        if bare.code != Some(0) {
            return limitation(test, &format!("{}: {}", runtime.name, bare.err()));
        }
        assert_eq!(run(node.wrapper()).success().out(), bare.out());
    });
}
