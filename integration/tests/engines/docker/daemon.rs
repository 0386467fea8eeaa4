//! dockerd: the runtime features that it reads, and its restart while containers run.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn docker_info_shows_version_and_features_of_the_real_runtime() {
    for_each::<Docker>("info", |suite, _| {
        let docker = Docker::start(suite);
        let ours = docker.out(&["info", "--format", "{{.DefaultRuntime}} {{.RuncCommit.ID}}"]);
        let version = docker.out(&["version"]);
        // dockerd calls `features` of each runtime since 25.0.
        let features =
            "{{json (index .Runtimes \"nri\").Status}}\n{{json (index .Runtimes \"runc\").Status}}";
        if suite.version("dockerd") >= (25, 0) {
            let reported = docker.out(&["info", "--format", features]);
            let (ours, theirs) = reported.split_once('\n').expect("two lines");
            assert_eq!(ours, theirs);
            assert!(ours.contains("ociVersionMax"), "{ours}");
        }
        drop(docker);
        let bare = Docker::start_with(Host::new(suite), |_| json!({}));
        let expected = bare.out(&["info", "--format", "{{.RuncCommit.ID}}"]);
        assert_eq!(ours, format!("nri {expected}"));
        assert_eq!(version, bare.out(&["version"]).replace(" runc:\n", " nri:\n"));
    });
}

#[test]
fn containers_survive_a_restart_of_dockerd() {
    for_each::<Docker>("live restore", |suite, go| {
        for signal in ["TERM", "KILL"] {
            let adjusted = Adjusted::<Docker>::start(suite, go);
            let (docker, journal) = (&adjusted.engine, &adjusted.plugin.journal);
            let stays =
                docker.run_detached("stays", &[&["--network=none", IMAGE], &WAIT[..]].concat());
            let ends = docker.run_detached("ends", &["--network=none", IMAGE, "sleep", "600"]);
            let (process, ending) = (docker.process_of("stays"), docker.process_of("ends"));
            docker.halt(signal);
            assert!(process.0.is_alive());
            journal.wait_for("PostStartContainer", &stays);
            assert_eq!(journal.events(&stays), TO_START);
            // Plugins are notified of an exit while no dockerd runs.
            ending.0.signal(rustix::process::Signal::KILL);
            journal.wait_for("StopPodSandbox", &ends);
            docker.resume();
            assert_eq!(docker.process_of("stays").0, process.0);
            assert_eq!(docker.out(&["exec", "stays", "sh", "-c", "echo $NRI"]), "here");
            docker.out(&["update", "--cpus", "0.5", "stays"]);
            assert_eq!(process.limit("cpuset", "cpuset.cpus", "cpuset.cpus"), "0");
            docker.out(&["stop", "stays"]);
            docker.out(&["rm", "stays", "ends"]);
            let updated = ["UpdateContainer", "PostUpdateContainer"];
            assert_eq!(adjusted.removed(&stays, 1), life_cycle(&updated), "{signal}");
            assert_eq!(adjusted.removed(&ends, 1), life_cycle(&[]), "{signal}");
        }
    });
}
