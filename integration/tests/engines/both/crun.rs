//! Tests of Docker and Podman with crun as the low-level runtime of the wrapper.

use crate::adjusted::*;
use nri_integration::{engines::*, *};

test_both! {
    a_container_on_crun_is_adjusted_and_updated,
    a_command_that_crun_cannot_run_fails_as_without_the_wrapper,
}

fn a_container_on_crun_is_adjusted_and_updated<E: Engine>() {
    for_each::<E>("crun", |suite, go_plugin| {
        let adjusted = Adjusted::with(E::start_on(suite, "crun"), go_plugin, &adjustment());
        let engine = &adjusted.engine;
        let id = adjusted.run_waiting("web");
        let process = engine.process_of("web");
        assert_eq!(process.env("NRI").as_deref(), Some("here"));
        assert_eq!(process.rlimit("Max core file size"), Some(("512".into(), "1024".into())));
        check_resources_except(process, &[]);
        // `ulimit -c` prints the limit in blocks of 512 bytes.
        let script = "echo $NRI; ulimit -c; ulimit -H -c";
        assert_eq!(engine.out(&["exec", "web", "sh", "-c", script]), "here\n1\n2");
        engine.out(&["update", "--cpus", "0.5", "web"]);
        // Half of the default period, which is 100 ms.
        assert_eq!(quota(process), "50000");
        check_resources_except(process, &[]);
        engine.out(&["stop", "web"]);
        engine.out(&["start", "web"]);
        engine.out(&["rm", "--force", "web"]);
        let updated = life_cycle(&["UpdateContainer", "PostUpdateContainer"]);
        assert_eq!(adjusted.events_until_removal(&id, 2), [updated, life_cycle(&[])].concat());
    });
}

fn a_command_that_crun_cannot_run_fails_as_without_the_wrapper<E: Engine>() {
    for_each::<E>("crun, no such command", |suite, go_plugin| {
        let adjusted = Adjusted::with(E::start_on(suite, "crun"), go_plugin, &adjustment());
        for command in ["no-such-command", "/etc"] {
            let bare = adjusted.engine.run_with("crun", &[IMAGE, command]);
            let ours = adjusted.engine.run_with("nri", &[IMAGE, command]);
            // Engines exit with 125, 126 or 127 if a container cannot be run.
            assert!(bare.code.is_some_and(|code| code >= 125), "{}", bare.err());
            assert_eq!(ours.code, bare.code, "{}", ours.err());
            assert_eq!(E::error(&ours, "nri"), E::error(&bare, "crun"));
        }
    });
}
