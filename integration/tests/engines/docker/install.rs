//! Tests of `nrictl install docker` with files in `/etc`, while dockerd runs.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

/// A `daemon.json` with an administrator's formatting, which `nrictl` must preserve.
const DAEMON_JSON: &str = "{\n    \"live-restore\": true,\n    \"labels\": [ \"a=b\" ]\n}\n";

/// Returns the names of dockerd's runtimes, followed by the name of the default runtime.
fn runtimes(docker: &Docker) -> String {
    docker.out(&[
        "info",
        "--format",
        "{{range $name, $_ := .Runtimes}}{{$name}} {{end}}{{.DefaultRuntime}}",
    ])
}

/// Waits until the default runtime has this name.
fn wait_for_default(docker: &Docker, name: &str) {
    wait_until(format_args!("the default runtime {name}"), || {
        runtimes(docker).ends_with(name).then_some(())
    });
}

#[test]
fn an_installation_for_docker_takes_effect_after_a_reload_and_ends_after_a_restart() {
    for_each::<Docker>("nrictl install docker", |suite, go_plugin| {
        let docker = Docker::start_in_etc(suite, DAEMON_JSON);
        let run = |options: &[&str]| {
            docker.out(
                &[
                    &["run", "--rm", "--network=none"],
                    options,
                    &[IMAGE, "sh", "-c", "echo ${NRI:-none}"],
                ]
                .concat(),
            )
        };
        let before =
            docker.run_detached("before", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        docker.nrictl(&["install", "docker", "--default"]).success();
        docker.reload();
        wait_for_default(&docker, "nri");
        docker.nrictl(&["start"]).success();
        let config = json!({"rules": [{"adjust": adjustment()}]});
        let plugin = docker.connect("10-go", go_plugin, &config.to_string());
        assert_eq!(run(&[]), "here");
        assert_eq!(run(&["--runtime=nri"]), "here");
        assert_eq!(
            run(&["--runtime=runc"]),
            "none",
            "a container with the engine's own runtime is adjusted"
        );
        let id = docker.run_detached("ours", &[&["--network=none", IMAGE], &WAIT[..]].concat());

        // Docker could not start the container again without the wrapper, so the uninstallation is
        // refused.
        let in_use = docker.nrictl(&["uninstall", "docker"]);
        assert_eq!(in_use.code, Some(4), "{}", in_use.err());
        assert!(
            in_use.err().contains("docker has 1 running container of the wrapper: ours ("),
            "{}",
            in_use.err()
        );
        // Containers keep the runtime with which they were created.
        docker.nrictl(&["uninstall", "docker", "--force"]).success();
        assert_eq!(std::fs::read_to_string(docker.daemon_json()).unwrap(), DAEMON_JSON);
        // dockerd forgets runtimes that were removed from the file only when it restarts.
        docker.halt("TERM");
        docker.resume();
        assert!(runtimes(&docker).ends_with("runc runc"), "{}", runtimes(&docker));
        assert_eq!(run(&[]), "none");
        assert_eq!(
            docker.call_client(&["run", "--rm", "--runtime=nri", IMAGE, "true"]).code,
            Some(125),
            "the client must report an unknown runtime"
        );
        docker.out(&["exec", "ours", "true"]);
        let restarted = docker.call_client(&["restart", "-t", "0", "ours"]);
        assert_ne!(restarted.code, Some(0), "a container restarted with a removed runtime");
        docker.out(&["rm", "--force", "ours"]);
        plugin.journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(plugin.journal.events(&id), life_cycle(&[]));
        docker.out(&["rm", "--force", "before"]);
        // Plugins must receive no event of the container that was created before the installation.
        assert_eq!(plugin.journal.events(&before), Vec::<String>::new());
    });
}

#[test]
fn install_does_not_change_a_broken_daemon_json() {
    for_each::<Docker>("nrictl install docker, refused", |suite, _| {
        let docker = Docker::start_in_etc(suite, "{}");
        let broken = "{\"runtimes\": {\"nri\": {\"path\": \"/usr/bin/other\"}}, }";
        std::fs::write(docker.daemon_json(), broken).unwrap();
        let refused = docker.nrictl(&["install", "docker"]);
        assert_eq!(refused.code, Some(4), "{}", refused.err());
        assert!(refused.err().contains("/etc/docker/daemon.json"), "{}", refused.err());
        assert_eq!(std::fs::read_to_string(docker.daemon_json()).unwrap(), broken);
    });
}
