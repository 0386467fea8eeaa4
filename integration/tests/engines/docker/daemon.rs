//! Tests of dockerd: the features of the runtime that dockerd reports, and restarts of dockerd
//! while containers run.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn docker_info_shows_version_and_features_of_the_real_runtime() {
    for_each::<Docker>("info", |suite, _| {
        let docker = Docker::start(suite);
        let ours = docker.out(&["info", "--format", "{{.DefaultRuntime}} {{.RuncCommit.ID}}"]);
        let version = docker.out(&["version"]);
        // dockerd 25.0 and later report the output of each runtime's `features` verb.
        let features =
            "{{json (index .Runtimes \"nri\").Status}}\n{{json (index .Runtimes \"runc\").Status}}";
        if suite.version("dockerd") >= (25, 0) {
            let reported = docker.out(&["info", "--format", features]);
            let (nri, runc) = reported.split_once('\n').expect("the report has two lines");
            assert_eq!(nri, runc);
            assert!(nri.contains("ociVersionMax"), "{nri}");
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
    for_each::<Docker>("live restore", |suite, go_plugin| {
        for signal in ["TERM", "KILL"] {
            let adjusted = Adjusted::<Docker>::start(suite, go_plugin);
            let (docker, journal) = (&adjusted.engine, &adjusted.plugin.journal);
            let running =
                docker.run_detached("running", &[&["--network=none", IMAGE], &WAIT[..]].concat());
            let exited = docker.run_detached("exited", &["--network=none", IMAGE, "sleep", "600"]);
            let running_process = docker.process_of("running");
            let exited_process = docker.process_of("exited");
            docker.halt(signal);
            assert!(running_process.0.is_alive(), "{signal}: the container ended with dockerd");
            journal.wait_for("PostStartContainer", &running);
            assert_eq!(journal.events(&running), TO_START);
            // Plugins must be notified of an exit while dockerd does not run.
            exited_process.0.signal(rustix::process::Signal::KILL);
            journal.wait_for("StopPodSandbox", &exited);
            docker.resume();
            assert_eq!(docker.process_of("running").0, running_process.0);
            assert_eq!(docker.out(&["exec", "running", "sh", "-c", "echo $NRI"]), "here");
            docker.out(&["update", "--cpus", "0.5", "running"]);
            check_resources_except(running_process, &[]);
            docker.out(&["stop", "running"]);
            docker.out(&["rm", "running", "exited"]);
            let updated = ["UpdateContainer", "PostUpdateContainer"];
            assert_eq!(
                adjusted.events_until_removal(&running, 1),
                life_cycle(&updated),
                "{signal}"
            );
            assert_eq!(adjusted.events_until_removal(&exited, 1), life_cycle(&[]), "{signal}");
        }
    });
}
