//! Tests of `docker update`: a plugin's value stays effective until the user requests another value
//! of the same field.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

/// Docker 20.10 calls the runtime with a zero for every field that the user does not update, also
/// for quota and period. The zeros must not reset the effective values.
#[test]
fn an_update_of_the_pids_limit_by_docker_keeps_everything_else() {
    for_each::<Docker>("update --pids-limit", |suite, go_plugin| {
        let adjusted = Adjusted::<Docker>::start(suite, go_plugin);
        let docker = &adjusted.engine;
        let id = adjusted.run_waiting("web");
        let process = docker.process_of("web");
        docker.out(&["update", "--cpus", "0.5", "web"]);
        docker.out(&["update", "--pids-limit", "55", "web"]);
        assert_eq!(process.limit("pids", "pids.max", "pids.max"), "55");
        assert_eq!(quota(process), "50000", "the quota of the previous update");
        check_resources_except(process, &["pids.max"]);
        if has_cpusets() {
            docker.out(&["update", "--cpuset-cpus", "0", "web"]);
        }
        check_resources_except(process, &["pids.max"]);
        // The restart policy is no resource, but Docker 20.10 calls `update` of the runtime anyway.
        docker.out(&["update", "--restart", "no", "web"]);
        check_resources_except(process, &["pids.max"]);
        docker.out(&["rm", "--force", "web"]);

        let events = adjusted.events_until_removal(&id, 1);
        let requested = requested_updates(&adjusted.plugin.journal, &id);
        // Plugins receive the updates of the quota and of the pids limit. Some versions of Docker
        // call the runtime also for the two later updates, although these change no value.
        assert!((2..=4).contains(&requested.len()), "{events:?}");
        let updates = ["UpdateContainer", "PostUpdateContainer"].repeat(requested.len());
        assert_eq!(events, life_cycle(&updates));
        assert_eq!(
            requested[1],
            json!({"pids": {"limit": "55"}}),
            "plugins must receive only the requested field"
        );
    });
}

#[test]
fn an_update_by_docker_keeps_a_block_io_class() {
    for_each::<Docker>("update, block I/O class", |suite, go_plugin| {
        let docker = Docker::start(suite);
        let classes = docker.path("blockio.json");
        std::fs::write(&classes, r#"{"Classes": {"slow": [{"Weight": 300}]}}"#).unwrap();
        docker.configure(&format!("blockio = {{ config_file = {classes:?} }}"));
        let class = json!({"linux": {"resources": {"blockioClass": {"value": "slow"}}}});
        let adjusted = Adjusted::with(docker, go_plugin, &class);
        let docker = &adjusted.engine;
        let arguments = ["run", "--detach", "--name=web", "--network=none", IMAGE];
        let ended = docker.call_client(&[&arguments, &WAIT[..]].concat());
        let without = || {
            limitation("docker update, block I/O class", "the kernel has no BFQ weights");
        };
        // So the wrapper refuses it on cgroup v2.
        if ended.err().contains("host has no cgroup file io.bfq.weight") {
            return without();
        }
        ended.success();
        let process = docker.process_of("web");
        let Some(weight) = process.try_limit("blkio", "blkio.bfq.weight", "io.bfq.weight") else {
            return without();
        };
        assert!(weight.ends_with("300"), "{weight}");
        docker.out(&["update", "--pids-limit", "55", "web"]);
        assert_eq!(process.limit("blkio", "blkio.bfq.weight", "io.bfq.weight"), weight);
    });
}
