//! Tests of `podman run`: health checks, and errors of a runtime that Podman calls without `--log`.

use crate::{adjusted::*, both::failing::check_refusals};
use nri_integration::{engines::*, *};

#[test]
fn health_checks_and_stats_of_podman_show_the_adjustment() {
    for_each::<Podman>("run --health-cmd, stats", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let podman = &adjusted.engine;
        let check = "test \"$NRI\" = here && test $(ulimit -c) = 1";
        let options = ["--network=none", "--health-cmd", check, "--health-interval=disable", IMAGE];
        podman.run_detached("web", &[&options, &WAIT[..]].concat());
        let stats = podman.out(&["stats", "--no-stream", "--format", "{{.MemUsage}}", "web"]);
        // Podman 4.3 prints the limit that it requested itself. Here it requested none, so it
        // prints the size of the host's memory.
        let limit = if suite.version("podman") >= (5, 0) { "/ 104.9MB" } else { "GB" };
        assert!(stats.ends_with(limit), "stats do not show {limit}: {stats}");
        podman.out(&["healthcheck", "run", "web"]);
    });
}

#[test]
fn a_refusal_without_a_log_file_names_the_plugin_and_its_reason() {
    for_each::<Podman>("run, refused, no --log", |suite, go_plugin| {
        let podman = Podman::start_with(suite, false);
        check_refusals(&Adjusted::with(podman, go_plugin, &adjustment()), go_plugin);
    });
}

/// conmon calls `create`, so the `nrid` that this call starts becomes its child, and conmon would
/// not end before it. `podman run` without `--detach` sometimes waits for conmon.
#[test]
fn podman_run_does_not_wait_for_the_nrid_that_it_has_started() {
    for_each_suite("nrid under conmon", Podman::PROGRAM, |suite| {
        for _ in 0..5 {
            let podman = Podman::start_with(suite, false);
            let id = podman.run_detached("web", &[&["--network=none", IMAGE], &WAIT[..]].concat());
            let nrid = podman.nrid().expect("the call of create has started nrid");
            let conmon = podman.inspect(&id)["State"]["ConmonPid"].as_u64();
            let conmon = conmon.and_then(|pid| u32::try_from(pid).ok()).expect("conmon has a pid");
            assert_ne!(nrid.parent(), Some(conmon));
            podman.out(&["rm", "--force", "--time=0", "web"]);
            wait_until("the end of conmon", || (!Process(conmon).is_alive()).then_some(()));
            assert_eq!(podman.out(&["run", "--rm", "--network=none", IMAGE, "echo", "a"]), "a");
            assert!(nrid.is_alive());
        }
    });
}
