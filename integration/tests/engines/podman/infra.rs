//! Detection of Podman's infra containers by the program that they run. A detected one is the
//! pod's sandbox; all other containers, also those that imitate one, are adjusted.

use super::pods::{
    BEGIN, container_life_cycle, count, of_container, of_pod, wait_until_pod_removed,
};
use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

const PAUSE: &str = "localhost/pause:local";
const POD_LIFE_CYCLE: [&str; 3] = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"];

fn create_pod(podman: &Podman, more: &[&str]) -> String {
    podman.out(&[&["pod", "create", "--name", "shop", "--network=none"], more].concat())
}

fn infra_of(podman: &Podman, pod: &str) -> String {
    podman.out(&["pod", "inspect", "--format", "{{.InfraContainerID}}", pod])
}

/// Runs a container in the pod and removes the pod. Checks that the infra container was the pod's
/// sandbox: plugins get no container event for it, and do not adjust it.
fn check_sandbox(adjusted: &Adjusted<Podman>, pod: &str) {
    let podman = &adjusted.engine;
    let member = podman.run_detached("member", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
    let infra = infra_of(podman, "shop");
    assert_eq!(of_pod(adjusted, pod), ["RunPodSandbox"]);
    let received = adjusted.plugin.journal.entries();
    assert!(
        received.iter().all(|e| e["container_id"] != *infra),
        "plugins got a container event for the infra container"
    );
    assert_eq!(podman.process_of(&infra).env("NRI"), None);
    assert_eq!(podman.process_of("member").env("NRI").as_deref(), Some("here"));
    podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
    wait_until_pod_removed(adjusted, pod, 1);
    assert_eq!(of_container(adjusted, &member), container_life_cycle());
    assert_eq!(of_pod(adjusted, pod), POD_LIFE_CYCLE);
}

#[test]
fn an_infra_container_with_a_name_of_its_own_is_a_sandbox() {
    for_each::<Podman>("pod --infra-name", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let pod = create_pod(&adjusted.engine, &["--infra-name=something", "--share=ipc,uts"]);
        check_sandbox(&adjusted, &pod);
    });
}

/// No cgroup names the pod, so plugins see it under the id of its infra container.
#[test]
fn an_infra_container_without_a_pod_cgroup_is_a_sandbox() {
    for_each::<Podman>("pod --share-parent=false", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let podman = &adjusted.engine;
        create_pod(podman, &["--share-parent=false"]);
        podman.out(&["pod", "start", "shop"]);
        let infra = infra_of(podman, "shop");
        wait_until("the pod", || (of_pod(&adjusted, &infra) == ["RunPodSandbox"]).then_some(()));
        check_sandbox(&adjusted, &infra);
    });
}

/// Podman as after `apt install podman catatonit`: no configuration names the program.
fn as_installed(suite: &Suite, go_plugin: &Program) -> Adjusted<Podman> {
    let podman = Podman::start_as_installed(suite);
    podman.nrictl(&["install", "podman", "--default"]).success();
    podman.nrictl(&["start"]).success();
    let config = json!({"rules": [{"adjust": adjustment()}]});
    let plugin = podman.connect("10-go", go_plugin, &config.to_string());
    Adjusted { engine: podman, plugin }
}

#[test]
fn an_infra_container_of_the_distributions_catatonit_is_a_sandbox() {
    for_each::<Podman>("pod, catatonit in /usr", |suite, go_plugin| {
        let adjusted = as_installed(suite, go_plugin);
        let pod = create_pod(&adjusted.engine, &[]);
        check_sandbox(&adjusted, &pod);
    });
}

/// Before 5.6 Podman keeps the infra image with the old catatonit. Its infra container is then a
/// container to be adjusted, and the log of `nrid` says how to remove the image; after that it is a
/// sandbox again.
#[test]
fn an_infra_container_is_a_sandbox_after_an_upgrade_of_catatonit() {
    for_each::<Podman>("pod, catatonit upgraded", |suite, go_plugin| {
        let adjusted = as_installed(suite, go_plugin);
        let podman = &adjusted.engine;
        let pod = create_pod(podman, &[]);
        check_sandbox(&adjusted, &pod);
        let upgrade = "cp /usr/bin/catatonit /usr/bin/new && echo >>/usr/bin/new && mv \
            /usr/bin/new /usr/bin/catatonit";
        podman.inside("/bin/sh".as_ref(), &["-c", upgrade]).success();
        if suite.version("podman") < (5, 6) {
            let pod = create_pod(podman, &[]);
            podman.out(&["pod", "start", "shop"]);
            let requested =
                adjusted.plugin.journal.wait_for("CreateContainer", &infra_of(podman, "shop"));
            assert_eq!(requested["pod"]["id"], *pod, "CreateContainer of the infra container");
            let image =
                podman.out(&["inspect", "--format", "{{.ImageName}}", &infra_of(podman, "shop")]);
            let log = podman.log();
            assert!(log.contains(&format!("podman rmi {image}")), "{log}");
            podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
            wait_until("the pod to be removed", || {
                (of_pod(&adjusted, &pod) == POD_LIFE_CYCLE).then_some(())
            });
            podman.out(&["rmi", &image]);
        }
        let pod = create_pod(podman, &[]);
        podman.out(&["pod", "start", "shop"]);
        wait_until("the pod", || (of_pod(&adjusted, &pod) == ["RunPodSandbox"]).then_some(()));
        let infra = infra_of(podman, "shop");
        assert_eq!(
            of_container(&adjusted, &infra),
            Vec::<String>::new(),
            "the infra container is a sandbox again"
        );
    });
}

#[test]
fn an_infra_container_of_the_configured_image_is_a_sandbox() {
    for_each::<Podman>("infra_image", |suite, go_plugin| {
        let podman = Podman::start_configured(suite, &format!("infra_image = {PAUSE:?}"));
        let adjusted = Adjusted::with(podman, go_plugin, &adjustment());
        let pod = create_pod(&adjusted.engine, &[]);
        check_sandbox(&adjusted, &pod);
        // A container of that image with another program mounted over the pause program.
        let cgroup = format!("--cgroup-parent=/{}", "0123456789abcdef".repeat(4));
        let id = adjusted
            .engine
            .run_detached("other", &[&cgroup, "--volume=/bin/busybox:/bin/sleep", PAUSE]);
        assert_eq!(adjusted.engine.process_of(&id).env("NRI").as_deref(), Some("here"));
    });
}

#[test]
fn an_infra_container_of_play_kube_is_a_sandbox() {
    for_each::<Podman>("play kube", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let (podman, journal) = (&adjusted.engine, &adjusted.plugin.journal);
        let file = podman.path("pod.yaml");
        let config = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"},
            "spec": {"containers": [{
                "name": "web", "image": IMAGE, "imagePullPolicy": "Never", "command": WAIT
            }]}
        });
        std::fs::write(&file, config.to_string()).unwrap();
        let file = file.to_str().unwrap();
        podman.out(&["play", "kube", "--network=none", file]);
        let pod = podman.out(&["pod", "inspect", "--format", "{{.ID}}", "shop"]);
        let member = podman.out(&["inspect", "--format", "{{.Id}}", "shop-web"]);
        let requested = journal.wait_for("CreateContainer", &member);
        assert_eq!(
            (&requested["pod"]["id"], &requested["pod"]["name"]),
            (&json!(pod), &json!("shop"))
        );
        assert_eq!(podman.process_of(&member).env("NRI").as_deref(), Some("here"));
        let infra = infra_of(podman, "shop");
        assert_eq!(of_container(&adjusted, &infra), Vec::<String>::new());
        assert_eq!(podman.process_of(&infra).env("NRI"), None);
        podman.out(&["play", "kube", "--down", file]);
        wait_until_pod_removed(&adjusted, &pod, 1);
        assert_eq!(of_container(&adjusted, &member), container_life_cycle());
        assert_eq!(of_pod(&adjusted, &pod), POD_LIFE_CYCLE);
    });
}

/// An infra container with another program cannot be distinguished from a container that only has
/// the pod's cgroup, so plugins adjust it. All containers of the pod are still in one pod.
#[test]
fn an_infra_container_with_another_program_is_adjusted_in_its_pod() {
    for (name, options) in [
        ("pod --infra-image", [format!("--infra-image={PAUSE}"), String::new()]),
        (
            "pod --infra-command",
            [format!("--infra-image={IMAGE}"), "--infra-command=sleep 600".to_owned()],
        ),
    ] {
        for_each::<Podman>(name, |suite, go_plugin| {
            let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
            let (podman, journal) = (&adjusted.engine, &adjusted.plugin.journal);
            let options: Vec<_> =
                options.iter().map(String::as_str).filter(|o| !o.is_empty()).collect();
            let pod = create_pod(podman, &options);
            let run = |name: &str| {
                podman.run_detached(name, &[&["--pod=shop", IMAGE], &WAIT[..]].concat())
            };
            let (first, second) = (run("first"), run("second"));
            let infra = infra_of(podman, "shop");
            for id in [&infra, &first, &second] {
                let requested = journal.wait_for("CreateContainer", id);
                assert_eq!(
                    (&requested["pod"]["id"], &requested["pod"]["name"]),
                    (&json!(pod), &json!("shop")),
                    "{id}"
                );
                wait_until("its events", || (of_container(&adjusted, id) == BEGIN).then_some(()));
                assert_eq!(podman.process_of(id).env("NRI").as_deref(), Some("here"), "{id}");
            }
            assert_eq!(of_pod(&adjusted, &pod), ["RunPodSandbox"]);
            assert!(podman.log().contains("has the cgroup or the name of a pod's infra container"));
            podman.out(&["rm", "--force", "first"]);
            wait_until("the first container to be removed", || {
                (of_container(&adjusted, &first) == container_life_cycle()).then_some(())
            });

            podman.out(&["pod", "stop", "--time=1", "shop"]);
            wait_until_pod_removed(&adjusted, &pod, 1);
            podman.out(&["pod", "start", "shop"]);
            let again = [&container_life_cycle(), BEGIN].concat();
            wait_until("the second start", || {
                (of_container(&adjusted, &second) == again).then_some(())
            });
            podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
            wait_until_pod_removed(&adjusted, &pod, 2);
            for id in [&infra, &second] {
                assert_eq!(of_container(&adjusted, id), container_life_cycle().repeat(2));
            }
            assert_eq!(of_pod(&adjusted, &pod), POD_LIFE_CYCLE.repeat(2));
        });
    }
}

/// Plugins do not adjust a pod's sandbox. A container must not escape them by imitating the cgroup,
/// the name or the program of one.
#[test]
fn a_container_that_imitates_an_infra_container_is_adjusted() {
    for_each::<Podman>("imitated infra containers", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let podman = &adjusted.engine;
        let pods = ["0123456789abcdef", "fedcba9876543210"].map(|digits| digits.repeat(4));
        let cgroups = pods.clone().map(|pod| format!("--cgroup-parent=/{pod}"));
        let is_adjusted = |id: &str, events: &[&str]| {
            // PostStartContainer may be sent after the engine's client has returned.
            wait_until("its events", || (of_container(&adjusted, id) == events).then_some(()));
            assert_eq!(podman.process_of(id).env("NRI").as_deref(), Some("here"), "{id}");
        };
        let by_cgroup =
            podman.run_detached("cgroup", &[&[&*cgroups[0], IMAGE], &WAIT[..]].concat());
        is_adjusted(&by_cgroup, BEGIN);
        assert_eq!(of_pod(&adjusted, &pods[0]), ["RunPodSandbox"], "the pod of its cgroup");
        let by_name = podman
            .run_detached(&format!("{}-infra", &pods[0][..12]), &[&[IMAGE], &WAIT[..]].concat());
        is_adjusted(&by_name, &TO_START);
        // Podman's program in a file of another user, who could replace it before it runs.
        let program = podman.path("catatonit");
        copy_program(&suite.file("usr/bin/catatonit"), &program);
        std::os::unix::fs::chown(&program, Some(1000), None).unwrap();
        let volume = format!("--volume={}:/catatonit", program.display());
        let entrypoint = "--entrypoint=[\"/catatonit\",\"-P\"]";
        let by_program = podman.run_detached("program", &[&cgroups[1], &volume, entrypoint, IMAGE]);
        is_adjusted(&by_program, BEGIN);

        // A container in the cgroup of a pod that has an infra container.
        let pod = create_pod(podman, &[]);
        podman.out(&["pod", "start", "shop"]);
        let cgroup = format!("--cgroup-parent=/libpod_parent/{pod}");
        let guest = podman.run_detached("guest", &[&[&*cgroup, IMAGE], &WAIT[..]].concat());
        is_adjusted(&guest, &TO_START);
        podman.out(&["rm", "--force", "guest"]);
        assert_eq!(adjusted.removed(&guest, 1), life_cycle(&[]));
        assert_eq!(of_pod(&adjusted, &pod), ["RunPodSandbox"], "it is not in the pod");
        assert_eq!(count(&adjusted, &pod, "CreateContainer"), 0);
    });
}
