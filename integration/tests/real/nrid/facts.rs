//! Tests of facts about containers, as plugins receive them: what a container can do, in spellings
//! of an engine's options that once passed for less.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{fs::symlink, net::UnixListener},
};

const PREFIX: &str = "facts.nri-container-runtime/";

/// A plugin that adjusts privileged containers alone.
const ADJUST: &str = "[filter.annotations]\n\
    'facts.nri-container-runtime/privileged' = 'true'\n\
    [create.resources]\npids = 77\n";

fn node(runtime: &Runtime) -> Node {
    let node = Node::new(runtime);
    node.configure(
        "containers.facts = ['capabilities', 'device_access', 'host_namespaces', 'mount_sources', \
         'privileged', 'seccomp']",
    );
    let policy = "[[plugin]]\nmatch = '10-adjust'\ndry_run = true\n";
    let keys = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), keys + policy).unwrap();
    node.launch("10-adjust", &Program::Adjust, ADJUST);
    node
}

/// Returns the facts of a created container.
fn facts(node: &Node, id: &str) -> Value {
    let inspected = node.ctl(&["inspect", "--json", id]).success().out();
    let inspected: Value = serde_json::from_str(&inspected).unwrap();
    let annotations = inspected["annotations"].as_object().unwrap().iter();
    annotations
        .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value.clone())))
        .collect()
}

fn is_adjusted(node: &Node, id: &str) -> bool {
    node.adjusted(id)["linux"]["resources"]["pids"]["limit"] == 77
}

#[test]
fn plugins_know_a_privileged_container_by_what_it_can_do() {
    for_each_runtime("facts of a privileged container", |runtime| {
        let node = node(runtime);
        let id = node.id("plain");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        let found = facts(&node, &id);
        assert_eq!(found["capabilities"], "CAP_AUDIT_WRITE,CAP_KILL,CAP_NET_BIND_SERVICE");
        assert_eq!((&found["privileged"], &found["seccomp"]), (&json!("false"), &json!("none")));
        assert_eq!(found["host_namespaces"], "time,user");
        assert!(!is_adjusted(&node, &id));

        let id = node.id("privileged");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.edit(|config| {
            config["process"]["capabilities"]["bounding"] = json!(["CAP_KILL", "CAP_SYS_ADMIN"]);
            let all = |kind: &str| json!({"allow": true, "type": kind, "access": "rwm"});
            let rules = config["linux"]["resources"]["devices"].as_array_mut().unwrap();
            rules.extend([all("b"), all("c")]);
            config["linux"]["seccomp"] = json!({"defaultAction": "SCMP_ACT_ALLOW"});
            let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
            let network = namespaces.iter_mut().find(|n| n["type"] == "network").unwrap();
            network["path"] = json!(format!("/proc/{}/ns/net", std::process::id()));
        });
        let dir = bundle.dir().to_str().unwrap();
        let dry_run = node.ctl(&["dry-run", "--bundle", dir]).success().out();
        assert!(dry_run.contains("77"), "{dry_run}");
        node.create(&bundle, &id).success();
        let found = facts(&node, &id);
        assert_eq!(found["privileged"], "true");
        assert_eq!(found["device_access"], "a *:* rwm");
        assert_eq!(found["seccomp"], "unfiltered");
        assert_eq!(found["host_namespaces"], "network,time,user");
        assert!(is_adjusted(&node, &id));
    });
}

#[test]
fn plugins_know_which_files_of_the_host_a_container_has() {
    for_each_runtime("sources of mounts", |runtime| {
        let node = node(runtime);
        let _socket = UnixListener::bind(node.path("engine.sock")).unwrap();
        symlink("/etc", node.path("link")).unwrap();
        let at = |name: &str| node.path(name).to_str().unwrap().to_owned();
        let sources = [
            "/etc".to_owned(),
            "//etc".to_owned(),
            "/home/../etc".to_owned(),
            "/proc/self/root/etc".to_owned(),
            at("link"),
            at("engine.sock"),
        ];
        let id = node.id("web");
        let script = "for n in 0 1 2 3 4; do cmp /m0/passwd /m$n/passwd || exit 1; done; sleep 99";
        let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", script]).make();
        let mounts = sources.iter().enumerate().map(|(n, source)| {
            json!({
                "destination": format!("/m{n}"), "type": "bind", "source": source,
                "options": ["rbind", if n == 0 { "ro" } else { "rw" }, "rprivate"],
            })
        });
        let mounts: Vec<_> = mounts.collect();
        bundle.edit(|config| config["mounts"].as_array_mut().unwrap().extend(mounts));
        // Runtimes make mount points of files and directories that are missing.
        bundle.edit(|config| config["root"]["readonly"] = json!(false));
        node.create(&bundle, &id).success();
        let found = facts(&node, &id);
        let found: Value = serde_json::from_str(found["mount_sources"].as_str().unwrap()).unwrap();
        let shown = |destination: &str, real: &str, writable: bool, name: &str| {
            json!({
                "destination": destination, "real": real, "writable": writable, "kind": "bind",
                "type": name, "propagation": if destination == "/" { "" } else { "rprivate" },
            })
        };
        let real = |path: String| fs::canonicalize(path).unwrap().to_str().unwrap().to_owned();
        let mut expected: Vec<_> =
            (0..5).map(|n| shown(&format!("/m{n}"), "/etc", n > 0, "directory")).collect();
        expected.push(shown("/m5", &real(at("engine.sock")), true, "socket"));
        let config = fs::read(bundle.dir().join("config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        let root = bundle.dir().join(config["root"]["path"].as_str().unwrap());
        let root = root.to_str().unwrap().to_owned();
        let mut root = shown("/", &real(root), true, "directory");
        root["kind"] = json!("root");
        expected.push(root);
        for (n, files) in expected.iter_mut().enumerate() {
            let root = &files["real"];
            files["source"] = sources.get(n).map_or_else(|| root.clone(), |path| json!(path));
        }
        assert_eq!(found, Value::from(expected));
        node.call(&["start", &id]).success();
        assert_eq!(node.state(&id).unwrap()["status"], "running");
    });
}

/// In place of a source that cannot be resolved, there is no fact, and not an empty list.
#[test]
fn a_source_that_cannot_be_resolved_leaves_the_fact_out() {
    for_each_runtime("unresolved source", |runtime| {
        let node = node(runtime);
        let id = node.id("web");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.edit(|config| {
            let mount = json!({
                "destination": "/cwd", "type": "bind", "source": "/proc/self/cwd",
                "options": ["bind", "ro"],
            });
            config["mounts"].as_array_mut().unwrap().push(mount);
            config["root"]["readonly"] = json!(false);
        });
        node.create(&bundle, &id).success();
        let found = facts(&node, &id);
        assert_eq!(found.get("mount_sources"), None);
        assert_eq!(found["unknown"], "mount_sources");
        assert_eq!(found["privileged"], "false");
        let log = node.log();
        for text in ["fact unknown", "mount_sources", "/proc/self/cwd"] {
            assert!(log.contains(text), "{text:?} is not in: {log}");
        }
    });
}
