//! Test of `podman container checkpoint` and `restore`, where the suite has criu.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

/// A container that was restored is exported, removed and imported: Podman makes the bundle of the
/// imported container from that of the first one.
#[test]
fn a_restored_container_can_be_exported_and_imported() {
    let test = "podman checkpoint";
    for_each::<Podman>(test, |suite, go_plugin| {
        if !suite.program("criu").exists() {
            return limitation(test, "the suite has no criu that knows this kernel");
        }
        let adjustment = json!({"env": [{"key": "NRI", "value": "here"}],
            "linux": {"resources": {"pids": {"limit": 66}}}});
        let podman = Podman::start_with(suite, true);
        let adjusted = Adjusted::with(podman, go_plugin, &adjustment);
        let podman = &adjusted.engine;
        let options = ["--network=none", IMAGE, "sh", "-c", "while :; do sleep 0.1; done"];
        let first = podman.run_detached("web", &options);
        let check = |name: &str| {
            let process = podman.process_of(name);
            assert_eq!(process.env("NRI").as_deref(), Some("here"));
            assert_eq!(process.limit("pids", "pids.max", "pids.max"), "66");
            let env = podman.out(&["exec", name, "env"]);
            assert_eq!(env.lines().filter(|line| *line == "NRI=here").count(), 1, "{env}");
        };
        check("web");
        let archive = podman.dir().join("web.tar");
        let archive = archive.to_str().expect("the test directory is UTF-8");
        podman.out(&["container", "checkpoint", "web"]);
        podman.out(&["container", "restore", "web"]);
        check("web");
        podman.out(&["container", "checkpoint", "--export", archive, "web"]);
        podman.out(&["rm", "--force", "web"]);
        let second = podman.out(&["container", "restore", "--import", archive, "--name", "again"]);
        check("again");
        podman.out(&["rm", "--force", "--time=0", "again"]);
        for id in [&first, &second] {
            adjusted.plugin.journal.wait_for("RemoveContainer", id);
        }
    });
}
