//! Tests of adjustments that refer to files of the host: CDI devices, and block I/O and RDT
//! classes.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    fs,
    time::{Duration, Instant},
};

const PLUGIN: &str = "10-requests";

/// Creates a node with the CDI directories `cdi-a` and `cdi-b` and the class files `blockio.yaml`
/// and `rdt.yaml` in its directory.
fn node(runtime: &Runtime) -> Node {
    let node = Node::new(runtime);
    for dir in ["cdi-a", "cdi-b", "data"] {
        fs::create_dir(node.path(dir)).unwrap();
    }
    // Append the tables, since TOML would assign the harness's keys to a table before them.
    let tables = format!(
        "[blockio]\nconfig_file = {:?}\n[rdt]\nconfig_file = {:?}\n[cdi]\nspec_dirs = [{:?}, \
            {:?}]\n",
        node.path("blockio.yaml"),
        node.path("rdt.yaml"),
        node.path("cdi-a"),
        node.path("cdi-b")
    );
    let config = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), config + &tables).unwrap();
    node
}

/// Runs a container with a shell script.
fn run(node: &Node, name: &str, script: &str) -> Ended {
    let id = node.id(name);
    let bundle = node.bundle(&id).arguments(&["/bin/sh", "-c", script]).make();
    node.call(&["run", "--bundle", bundle.dir().to_str().unwrap(), &id])
}

/// Returns the plugin's rule for a container of this name.
fn rule(node: &Node, name: &str, adjust: Value) -> Value {
    json!({"id": node.id(name), "adjust": adjust})
}

#[test]
fn cdi_devices_are_injected() {
    let Some(go_plugin) = go_plugin("cdi") else { return };
    for_each_runtime("cdi", |runtime| {
        let node = node(runtime);
        let devices = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|n| json!({"name": n})).collect();
            json!({"CDIDevices": names})
        };
        let rules = [
            rule(&node, "good", devices(&["example.org/thing=0", "example.org/thing=other"])),
            rule(&node, "missing", devices(&["example.org/thing=none"])),
        ];
        let journal = node.launch(PLUGIN, &go_plugin, &json!({"rules": rules}).to_string());
        fs::write(node.path("data/file"), "from the host").unwrap();
        let yaml = format!(
            "cdiVersion: 0.6.0\nkind: example.org/thing\ncontainerEdits:\n  env: \
                [ALL=yes]\ndevices:\n- name: 0\n  containerEdits:\n    env:\n    - \
                DEVICE=zero\n    deviceNodes:\n    - path: /dev/cdi-null\n      hostPath: \
                /dev/null\n      fileMode: 0640\n    mounts:\n    - hostPath: {}\n      \
                containerPath: /data\n      options: [rbind, ro]\n",
            node.path("data").display()
        );
        fs::write(node.path("cdi-a/thing.yaml"), yaml).unwrap();
        let device = json!({"name": "other", "containerEdits": {"env": ["OTHER=1"]}});
        let json = json!({"cdiVersion": "0.5.0", "kind": "example.org/thing", "devices": [device]});
        fs::write(node.path("cdi-b/thing.json"), json.to_string()).unwrap();
        fs::write(node.path("cdi-b/broken.yaml"), "kind: x\nkind: y\n").unwrap();

        let script = "echo $ALL $DEVICE $OTHER; cat /data/file; echo; stat -c '%t:%T %a' \
            /dev/cdi-null; echo x >/dev/cdi-null && echo written";
        let ended = run(&node, "good", script).success();
        assert_eq!(ended.out(), "yes zero 1\nfrom the host\n1:3 640\nwritten\n");
        let reported = journal.wait_for("PostCreateContainer", &node.id("good"));
        let names: Vec<_> = reported["container"]["CDIDevices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| &d["name"])
            .collect();
        assert_eq!(names, ["example.org/thing=0", "example.org/thing=other"]);
        let env = reported["container"]["env"].as_array().unwrap();
        assert!(env.contains(&json!("DEVICE=zero")), "{env:?}");

        let line = run(&node, "missing", "true").refusal();
        let id = node.id("missing");
        let plugin = format!("set by plugin \"{PLUGIN}\"");
        for word in
            ["example.org/thing=none", &plugin, "broken.yaml", "line 2, column 1", id.as_str()]
        {
            assert!(line.contains(word), "the error does not contain {word:?}: {line}");
        }
        assert!(node.log().contains("broken.yaml"), "{}", node.log());
    });
}

#[test]
fn block_io_and_rdt_classes_are_resolved_by_name() {
    let Some(go_plugin) = go_plugin("classes") else { return };
    let Some(disk) = disk() else { return skip("classes", "no disk with a device node") };
    for_each_runtime("classes", |runtime| {
        let node = node(runtime);
        let blockio =
            |class: &str| json!({"linux": {"resources": {"blockioClass": {"value": class}}}});
        let fast = blockio("fast")["linux"].clone();
        let update = json!({"event": "UpdateContainer", "id": node.id("good"), "updates": [
            {"containerId": node.id("good"), "linux": fast}]});
        let rules = [
            rule(&node, "good", blockio("slow")),
            rule(&node, "missing", blockio("none")),
            rule(&node, "rdt", json!({"linux": {"resources": {"rdtClass": {"value": "none"}}}})),
            update,
        ];
        let journal = node.launch(PLUGIN, &go_plugin, &json!({"rules": rules}).to_string());
        let missing = run(&node, "missing", "true").refusal();
        assert!(
            missing.contains(&format!("blockio_class \"none\" (set by plugin \"{PLUGIN}\")"))
                && missing.contains("blockio.yaml"),
            "{missing}"
        );
        fs::write(node.path("rdt.yaml"), "partitions: {p: {classes: {gold: {}}}}\n").unwrap();
        let missing = run(&node, "rdt", "true").refusal();
        assert!(
            missing.contains(&format!("rdt_class \"none\" (set by plugin \"{PLUGIN}\")"))
                && missing.contains("gold"),
            "{missing}"
        );

        // nrid reads the class file again for each creation.
        let classes = format!(
            "Classes:\n  slow:\n  - Devices: [{disk}]\n    ThrottleReadBps: 2Mi\n  fast: []\n"
        );
        fs::write(node.path("blockio.yaml"), classes).unwrap();
        let id = node.id("good");
        let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &id).success();
        let limits = node.cgroup_file(&id, "blkio", "blkio.throttle.read_bps_device", "io.max");
        assert!(limits.contains("2097152"), "{limits}");
        let class = |event: &str| {
            journal.wait_for(event, &id)["container"]["linux"]["resources"]["blockioClass"]["value"]
                .clone()
        };
        assert_eq!(class("PostCreateContainer"), "slow");
        node.call(&["start", &id]).success();

        // A plugin's change of the class removes the limits of the previous class.
        let resources = node.path("resources.json");
        fs::write(&resources, r#"{"pids": {"limit": 55}}"#).unwrap();
        node.call(&["update", "--resources", resources.to_str().unwrap(), &id]).success();
        assert_eq!(class("UpdateContainer"), "slow");
        assert_eq!(class("PostUpdateContainer"), "fast");
        let limits = node.cgroup_file(&id, "blkio", "blkio.throttle.read_bps_device", "io.max");
        assert!(!limits.contains("2097152"), "{limits}");
        assert_eq!(node.cgroup_file(&id, "pids", "pids.max", "pids.max").trim(), "55");
    });
}

/// A plugin requests paths on a file system that hangs. A process that accesses such a path cannot
/// be ended, not even by SIGKILL.
#[test]
fn a_path_on_a_hanging_file_system_delays_no_other_container() {
    let Some(go_plugin) = go_plugin("paths that hang") else { return };
    for_each_runtime("paths that hang", |runtime| {
        let node = node(runtime);
        fs::create_dir(node.path("hangs")).unwrap();
        let Some(hanging) = HangingFileSystem::mount(&node.path("hangs")) else {
            return skip("paths that hang", "no FUSE");
        };
        let hanging_path = |name: &str| node.path("hangs").join(name).to_str().unwrap().to_owned();
        // nrid looks up the source of a mount only if the mount has a propagation such as
        // `rshared`.
        let mount = |name: &str| {
            let options = ["rbind", "rshared"];
            let source = hanging_path(name);
            json!({"mounts": [
                {"destination": "/x", "source": source, "type": "bind", "options": options}]})
        };
        let spec = json!({"cdiVersion": "0.5.0", "kind": "example.org/thing", "devices": [
            {"name": "hangs", "containerEdits": {"deviceNodes": [
                {"path": "/dev/x", "hostPath": hanging_path("node")}]}}]});
        fs::write(node.path("cdi-a/thing.json"), spec.to_string()).unwrap();
        // More than nrid has processes for such lookups.
        let many: Vec<String> = (0..34).map(|n| format!("many{n}")).collect();
        let shared = json!({"mounts": [{"destination": "/x", "source": node.path("data"),
            "type": "bind", "options": ["rbind", "rshared"]}]});
        let mut rules = vec![
            rule(&node, "elsewhere", shared),
            rule(&node, "mount1", mount("a")),
            rule(&node, "mount2", mount("b")),
            rule(&node, "mount3", mount("c/d")),
            rule(&node, "device", json!({"CDIDevices": [{"name": "example.org/thing=hangs"}]})),
        ];
        rules.extend(many.iter().map(|name| rule(&node, name, mount("a"))));
        node.launch(PLUGIN, &go_plugin, &json!({"rules": rules}).to_string());
        run(&node, "before", "true").success();
        let nrid = node.nrid().unwrap();
        // Many times nrid's time limit for one path, 2 s, and less than the harness's timeout.
        let limit = Duration::from_secs(45);
        std::thread::scope(|scope| {
            let check_refused = |name: &'static str| {
                let node = &node;
                scope.spawn(move || {
                    let begin = Instant::now();
                    let line = run(node, name, "true").refusal();
                    assert!(
                        begin.elapsed() < limit,
                        "the refusal of {name} took {:?}",
                        begin.elapsed()
                    );
                    for word in ["hangs", &node.id(name)] {
                        assert!(line.contains(word), "the error does not contain {word:?}: {line}");
                    }
                })
            };
            let refused = ["mount1", "mount2", "mount3", "device"].map(check_refused);
            let begin = Instant::now();
            for n in 0..5 {
                run(&node, &format!("other{n}"), "true").success();
            }
            assert!(begin.elapsed() < limit, "the other containers took {:?}", begin.elapsed());
            refused.into_iter().for_each(|r| r.join().unwrap());
        });
        // The processes that are stuck are few, and refuse others of this file system at once.
        let begin = Instant::now();
        for name in &many {
            let line = run(&node, name, "true").refusal();
            assert!(line.contains("its file system hangs"), "{line}");
        }
        assert!(begin.elapsed() < limit, "the refusals took {:?}", begin.elapsed());
        // Whether it is possible depends on the mount; the lookup has an answer.
        let elsewhere = run(&node, "elsewhere", "true").err();
        assert!(!elsewhere.contains("hang"), "{elsewhere}");
        let status = node.ctl(&["status"]).out();
        assert!(status.contains("cannot be killed"), "{status}");
        // nrid has no blocked thread, so that it can end, and the next nrid can start, while the
        // file system hangs.
        node.ctl(&["stop"]).success();
        wait_until("the end of nrid", || node.nrids().iter().all(|p| p.0 != nrid.0).then_some(()));
        run(&node, "after", "true").success();
        drop(hanging);
    });
}
