//! Tests of `docker run`: terminals, health checks, error messages.

use crate::adjusted::*;
use nri_integration::{engines::*, *};

#[test]
fn the_output_of_a_short_lived_container_with_a_terminal_is_complete() {
    for_each::<Docker>("run --tty", |suite, go_plugin| {
        let Adjusted { engine: docker, plugin: _plugin } =
            Adjusted::<Docker>::start(suite, go_plugin);
        let script = "tty; echo $NRI";
        let run = ["run", "--rm", "--network=none", "--tty", IMAGE, "sh", "-c", script];
        assert_eq!(docker.out(&run).replace('\r', ""), "/dev/pts/0\nhere");
    });
}

#[test]
fn health_checks_and_stats_of_docker_show_the_adjustment() {
    for_each::<Docker>("run --health-cmd, stats", |suite, go_plugin| {
        let adjusted = Adjusted::<Docker>::start(suite, go_plugin);
        let docker = &adjusted.engine;
        let check = "test \"$NRI\" = here && test $(ulimit -c) = 1";
        let options = ["--network=none", "--health-cmd", check, "--health-interval=1s", IMAGE];
        docker.run_detached("web", &[&options, &WAIT[..]].concat());
        let stats = docker.out(&["stats", "--no-stream", "--format", "{{.MemUsage}}", "web"]);
        assert!(stats.ends_with("/ 100MiB"), "stats do not show the plugin's limit: {stats}");
        wait_until("the health check", || {
            let health = docker.out(&["inspect", "--format", "{{.State.Health.Status}}", "web"]);
            assert_ne!(health, "unhealthy", "{}", docker.out(&["inspect", "web"]));
            (health == "healthy").then_some(())
        });
    });
}

#[test]
fn a_working_directory_that_is_a_file_fails_as_without_the_wrapper() {
    for_each::<Docker>("run --workdir", |suite, go_plugin| {
        let adjusted = Adjusted::<Docker>::start(suite, go_plugin);
        let run = |runtime| {
            adjusted.engine.run_with(runtime, &["--workdir", "/bin/busybox", IMAGE, "true"])
        };
        let (bare, ours) = (run("runc"), run("nri"));
        assert_eq!((bare.code, ours.code), (Some(125), Some(125)), "{}", ours.err());
        assert_eq!(Docker::error(&ours, "nri"), Docker::error(&bare, "runc"));
    });
}

#[test]
fn docker_inspect_shows_why_a_container_was_refused_and_the_container_can_be_started_later() {
    for_each::<Docker>("run --detach, refused", |suite, go_plugin| {
        let docker = Docker::start(suite);
        docker.ctl(&["start"]).success();
        let plugin =
            docker.connect("30-refuses", go_plugin, r#"{"rules": [{"error": "not this one"}]}"#);
        let run = ["run", "--detach", "--network=none", "--name=kept", IMAGE, "true"];
        assert_eq!(docker.call_client(&run).code, Some(125));
        let error = docker.out(&["inspect", "--format", "{{.State.Error}}", "kept"]);
        assert!(error.contains("not this one"), "{error}");
        plugin.stop();
        docker.wait_for_plugin_to_close("30-refuses");
        docker.out(&["start", "kept"]);
        assert_eq!(docker.out(&["wait", "kept"]), "0");
    });
}
