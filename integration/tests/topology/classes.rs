//! Classes of block I/O and RDT of a policy: what the kernel and the real runtime have of them.

use crate::fleet::Fleet;
use nri_integration::*;
use serde_json::{Value, json};
use std::fs;

const POLICY: &str = r#"
[class.throttled]
blockio_class = "slow"
[class.heavy]
blockio_class = "heavy"
[class.gold]
rdt_class = "gold"
[class.no-blockio]
blockio_class = "none"
[class.no-rdt]
rdt_class = "none"
"#;

/// Starts `nrid` with files of classes, and the plugin.
fn start(runtime: &Runtime, disk: &str) -> Fleet {
    let fleet = Fleet::new(runtime, POLICY);
    let node = &fleet.node;
    let blockio = format!(
        "Classes:\n  slow:\n  - Devices: [{disk}]\n    ThrottleReadBps: 2Mi\n    \
         ThrottleWriteIOPS: 100\n  heavy:\n  - Weight: 500\n"
    );
    fs::write(node.path("blockio.yaml"), blockio).unwrap();
    fs::write(node.path("rdt.yaml"), "partitions: {p: {classes: {gold: {}}}}\n").unwrap();
    // Tables come after the keys of the harness.
    let tables = ["blockio", "rdt"].map(|name| {
        let file = node.path(&format!("{name}.yaml"));
        format!("[{name}]\nconfig_file = {file:?}\n")
    });
    let config = fs::read_to_string(node.config()).unwrap();
    fs::write(node.config(), config + &tables.concat()).unwrap();
    node.ctl(&["reload"]).success();
    fleet
}

/// Creates a container of this class, with the id `CLASS`. Returns its bundle, too.
fn create(fleet: &Fleet, class: &str) -> (String, Ended) {
    let id = fleet.node.id(class);
    let annotation = format!("nri-topology/class={class}");
    let bundle = fleet.node.bundle(&id).annotation(&annotation).make();
    let ended = fleet.node.create(&bundle, &id);
    (id, ended)
}

#[test]
fn classes_of_block_io_are_in_the_kernel_and_unknown_classes_are_refused() {
    let Some(disk) = disk() else { return skip("topology classes", "no disk") };
    for_each_runtime("topology block I/O classes", |runtime| {
        let fleet = start(runtime, &disk);
        let (_, ended) = create(&fleet, "throttled");
        ended.success();
        let id = fleet.node.id("throttled");
        let file = |v1: &str| fleet.node.cgroup_file(&id, "blkio", v1, "io.max");
        let (read, write) =
            (file("blkio.throttle.read_bps_device"), file("blkio.throttle.write_iops_device"));
        let [expected_read, expected_write] =
            if is_cgroup_v2() { ["rbps=2097152", "wiops=100"] } else { [" 2097152", " 100"] };
        assert!(read.contains(expected_read), "{read}");
        assert!(write.contains(expected_write), "{write}");

        let (_, ended) = create(&fleet, "heavy");
        if ended.code == Some(0) {
            let id = fleet.node.id("heavy");
            let files = [("blkio.bfq.weight", "io.bfq.weight"), ("blkio.weight", "io.weight")];
            let file = |(v1, v2)| fleet.node.try_cgroup_file(&id, "blkio", v1, v2).ok();
            let weight = files.into_iter().find_map(file).expect("a file with the weight");
            // io.weight has another range.
            assert!(["500", "default 500", "default 4950"].contains(&weight.as_str()), "{weight}");
        } else {
            let line = ended.refusal();
            assert!(line.contains("weight") && line.contains("10-topology"), "{line}");
            limitation("topology classes", "no weights of block I/O on this host and runtime");
        }

        for (class, setting) in [("no-blockio", "blockio_class"), ("no-rdt", "rdt_class")] {
            let line = create(&fleet, class).1.refusal();
            let expected =
                format!("{setting} \"none\" (set by plugin \"10-topology\") is not defined");
            assert!(line.contains(&expected), "{line}");
        }
    });
}

#[test]
fn classes_of_rdt_reach_the_runtime_or_are_refused_by_name() {
    let Some(disk) = disk() else { return skip("topology classes", "no disk") };
    for_each_runtime("topology RDT classes", |runtime| {
        let fleet = start(runtime, &disk);
        let (id, ended) = create(&fleet, "gold");
        if ended.code == Some(0) {
            assert_eq!(fleet.node.adjusted(&id)["linux"]["intelRdt"], json!({"closID": "gold"}));
        } else {
            let line = ended.refusal();
            let expected = "rdt.closID (set by plugin \"10-topology\") is not supported by ";
            assert!(line.contains(expected), "{line}");
            limitation("topology RDT classes", "resctrl is not mounted, or the runtime is old");
        }

        // A runtime of which nrid does not know what it can do, and which keeps what it is given.
        let dir = tempfile::tempdir().unwrap();
        let unknown = Runtime { path: dir.path().join("runc"), ..runtime.clone() };
        let fleet = start(&unknown, &disk);
        let kept = dir.path().join("config.json");
        let script = format!(
            "#!/bin/sh\ncase \" $* \" in *' --version '* | *' features '*) exit 1 ;; *' create '*) \
             cp '{}'/bundles/*/config.json '{}' ;; esac\nexec '{}' \"$@\"\n",
            fleet.node.state_dir().display(),
            kept.display(),
            runtime.path.display()
        );
        write_program(&unknown.path, &script);
        // Whether the runtime accepts it depends on its version and the host.
        create(&fleet, "gold");
        let config = fs::read_to_string(kept).expect("the runtime is called");
        let config: Value = serde_json::from_str(&config).unwrap();
        assert_eq!(config["linux"]["intelRdt"], json!({"closID": "gold"}));
    });
}
