//! Test of `nrictl install podman` with files in `/etc`, which Podman reads at each call.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn an_installation_for_podman_takes_effect_and_ends_at_the_next_call() {
    for_each::<Podman>("nrictl install podman", |suite, go_plugin| {
        let podman = Podman::start_in_etc(suite);
        let run = |options: &[&str]| {
            let command = ["run", "--rm", "--network=none", IMAGE, "sh", "-c", "echo ${NRI:-none}"];
            podman.out(&[options, &command].concat())
        };
        assert_eq!(run(&[]), "none");
        podman.nrictl(&["install", "podman"]).success();
        podman.nrictl(&["start"]).success();
        let config = json!({"rules": [
            {"name": "refused", "error": "not this one"},
            {"adjust": adjustment()}
        ]});
        let plugin = podman.connect("10-go", go_plugin, &config.to_string());
        assert_eq!(run(&["--runtime=nri"]), "here");
        assert_eq!(run(&[]), "none");
        podman.nrictl(&["install", "podman", "--default"]).success();
        assert_eq!(run(&[]), "here");
        assert_eq!(
            run(&["--runtime=runc"]),
            "none",
            "a container with the engine's own runtime is adjusted"
        );
        // Podman calls the wrapper with `--log`, so Podman shows the wrapper's errors like runc's.
        let refused =
            podman.call_client(&["run", "--name=refused", "--network=none", IMAGE, "true"]);
        assert_eq!(refused.code, Some(126));
        assert!(
            refused.err().starts_with("Error: OCI runtime error: nri: nri-container-runtime: "),
            "{}",
            refused.err()
        );
        assert!(refused.err().contains("not this one"), "{}", refused.err());

        podman.run_detached("ours", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        // Without the wrapper, Podman could neither stop nor remove the container, so the
        // uninstallation is refused.
        let in_use = podman.nrictl(&["uninstall", "podman"]);
        assert_eq!(in_use.code, Some(4), "{}", in_use.err());
        assert!(
            in_use.err().contains("podman has 1 running container of the wrapper: ours ("),
            "{}",
            in_use.err()
        );
        podman.out(&["rm", "--force", "ours"]);
        let removed_pods =
            || plugin.journal.entries().iter().filter(|e| e["event"] == "RemovePodSandbox").count();
        // Two containers that ran in the foreground, the refused one, and `ours`.
        wait_until("four removed pods", || (removed_pods() >= 4).then_some(()));
        assert_eq!(removed_pods(), 4);
        podman.out(&["rm", "refused"]);
        podman.nrictl(&["uninstall", "podman"]).success();
        let files: Vec<_> = std::fs::read_dir(podman.etc().join("containers"))
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(files, ["containers.conf"]);
        assert_eq!(run(&[]), "none");
        assert_ne!(
            podman.call_client(&["--runtime=nri", "run", "--rm", IMAGE, "true"]).code,
            Some(0),
            "podman still knows the runtime nri"
        );
    });
}
