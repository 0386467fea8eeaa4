//! Tests of the detection of Podman's infra containers by the program that they run. A detected
//! infra container is the pod's sandbox, which plugins do not adjust. Plugins adjust all other
//! containers, also those that imitate an infra container.

use super::pods::{
    MEMBER_TO_START, container_events, count_events, member_life_cycle, pod_events,
    wait_until_pod_removed,
};
use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

/// Image whose program is a pause program instead of Podman's catatonit.
const PAUSE: &str = "localhost/pause:local";
/// Events of a pod, without the events of its containers.
const POD_LIFE_CYCLE: [&str; 3] = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"];

/// Creates the pod `shop` and returns its id.
fn create_pod(podman: &Podman, more: &[&str]) -> String {
    podman.out(&[&["pod", "create", "--name", "shop", "--network=none"], more].concat())
}

/// Returns the id of a pod's infra container.
fn infra_of(podman: &Podman, pod: &str) -> String {
    podman.out(&["pod", "inspect", "--format", "{{.InfraContainerID}}", pod])
}

/// Runs a container in the pod and removes the pod. Checks that the infra container was the pod's
/// sandbox: plugins received no container event of the infra container and did not adjust it.
fn check_sandbox(adjusted: &Adjusted<Podman>, pod: &str) {
    let podman = &adjusted.engine;
    let member = podman.run_detached("member", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
    let infra = infra_of(podman, "shop");
    assert_eq!(pod_events(adjusted, pod), ["RunPodSandbox"]);
    let received = adjusted.plugin.journal.entries();
    assert!(
        received.iter().all(|e| e["container_id"] != *infra),
        "plugins received a container event of the infra container"
    );
    assert_eq!(podman.process_of(&infra).env("NRI"), None);
    assert_eq!(podman.process_of("member").env("NRI").as_deref(), Some("here"));
    podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
    wait_until_pod_removed(adjusted, pod, 1);
    assert_eq!(container_events(adjusted, &member), member_life_cycle());
    assert_eq!(pod_events(adjusted, pod), POD_LIFE_CYCLE);
}

#[test]
fn an_infra_container_with_a_custom_name_is_a_sandbox() {
    for_each::<Podman>("pod --infra-name", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let pod = create_pod(&adjusted.engine, &["--infra-name=something", "--share=ipc,uts"]);
        check_sandbox(&adjusted, &pod);
    });
}

/// No cgroup contains the pod's id, so plugins receive the id of the infra container as the id of
/// the pod.
#[test]
fn an_infra_container_without_a_pod_cgroup_is_a_sandbox() {
    for_each::<Podman>("pod --share-parent=false", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let podman = &adjusted.engine;
        create_pod(podman, &["--share-parent=false"]);
        podman.out(&["pod", "start", "shop"]);
        let infra = infra_of(podman, "shop");
        wait_until("the pod to start", || {
            (pod_events(&adjusted, &infra) == ["RunPodSandbox"]).then_some(())
        });
        check_sandbox(&adjusted, &infra);
    });
}

/// Starts Podman as after `apt install podman catatonit`, where no configuration contains the path
/// of the infra container's program, and connects a plugin.
fn start_as_installed(suite: &Suite, go_plugin: &Program) -> Adjusted<Podman> {
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
        let adjusted = start_as_installed(suite, go_plugin);
        let pod = create_pod(&adjusted.engine, &[]);
        check_sandbox(&adjusted, &pod);
    });
}

/// Podman before 5.6 keeps the infra image with the previous catatonit after an upgrade. An infra
/// container of this image is not detected and is adjusted like other containers; the log of `nrid`
/// shows the command that removes the image. After the removal of the image, infra containers are
/// detected again.
#[test]
fn an_infra_container_is_a_sandbox_after_an_upgrade_of_catatonit() {
    for_each::<Podman>("pod, catatonit upgraded", |suite, go_plugin| {
        let adjusted = start_as_installed(suite, go_plugin);
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
            assert_eq!(
                requested["pod"]["id"], *pod,
                "the pod in CreateContainer of the infra container"
            );
            let image =
                podman.out(&["inspect", "--format", "{{.ImageName}}", &infra_of(podman, "shop")]);
            let log = podman.log();
            assert!(log.contains(&format!("podman rmi {image}")), "{log}");
            podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
            wait_until("the pod to be removed", || {
                (pod_events(&adjusted, &pod) == POD_LIFE_CYCLE).then_some(())
            });
            podman.out(&["rmi", &image]);
        }
        let pod = create_pod(podman, &[]);
        podman.out(&["pod", "start", "shop"]);
        wait_until("the pod to start", || {
            (pod_events(&adjusted, &pod) == ["RunPodSandbox"]).then_some(())
        });
        let infra = infra_of(podman, "shop");
        assert_eq!(
            container_events(&adjusted, &infra),
            Vec::<String>::new(),
            "plugins received container events of the infra container"
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
        // In this container of the same image, another program is mounted over the pause program.
        // Its parent cgroup has the format of a pod's cgroup: a name of 64 hexadecimal digits.
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
        assert_eq!(container_events(&adjusted, &infra), Vec::<String>::new());
        assert_eq!(podman.process_of(&infra).env("NRI"), None);
        podman.out(&["play", "kube", "--down", file]);
        wait_until_pod_removed(&adjusted, &pod, 1);
        assert_eq!(container_events(&adjusted, &member), member_life_cycle());
        assert_eq!(pod_events(&adjusted, &pod), POD_LIFE_CYCLE);
    });
}

/// `nrid` cannot distinguish an infra container that runs another program from a container that
/// only has the pod's cgroup, and one that has volumes or other rights is a container like others.
/// Therefore plugins adjust such an infra container, but receive it as a container of the same pod.
#[test]
fn an_infra_container_with_another_program_or_volumes_is_adjusted_in_its_pod() {
    for (name, options) in [
        ("pod --volume", ["--volume=/usr:/host:ro".to_owned(), String::new()]),
        ("pod --security-opt", ["--security-opt=seccomp=unconfined".to_owned(), String::new()]),
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
                wait_until(format_args!("the events of {id}"), || {
                    (container_events(&adjusted, id) == MEMBER_TO_START).then_some(())
                });
                assert_eq!(podman.process_of(id).env("NRI").as_deref(), Some("here"), "{id}");
            }
            assert_eq!(pod_events(&adjusted, &pod), ["RunPodSandbox"]);
            assert!(podman.log().contains("has the cgroup or the name of a pod's infra container"));
            podman.out(&["rm", "--force", "first"]);
            wait_until("the first container to be removed", || {
                (container_events(&adjusted, &first) == member_life_cycle()).then_some(())
            });

            podman.out(&["pod", "stop", "--time=1", "shop"]);
            wait_until_pod_removed(&adjusted, &pod, 1);
            podman.out(&["pod", "start", "shop"]);
            let second_start = [&member_life_cycle(), MEMBER_TO_START].concat();
            wait_until("the second start", || {
                (container_events(&adjusted, &second) == second_start).then_some(())
            });
            podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
            wait_until_pod_removed(&adjusted, &pod, 2);
            for id in [&infra, &second] {
                assert_eq!(container_events(&adjusted, id), member_life_cycle().repeat(2));
            }
            assert_eq!(pod_events(&adjusted, &pod), POD_LIFE_CYCLE.repeat(2));
        });
    }
}

/// Plugins do not adjust the sandbox of a pod. A container must not evade adjustment by imitating
/// the cgroup, the name or the program of an infra container.
#[test]
fn a_container_that_imitates_an_infra_container_is_adjusted() {
    for_each::<Podman>("imitated infra containers", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let podman = &adjusted.engine;
        // Podman's ids have 64 hexadecimal digits.
        let pods = ["0123456789abcdef", "fedcba9876543210"].map(|digits| digits.repeat(4));
        let cgroups = pods.clone().map(|pod| format!("--cgroup-parent=/{pod}"));
        let check_adjusted = |id: &str, events: &[&str]| {
            // PostStartContainer may be sent after the engine's client has returned.
            wait_until(format_args!("the events of {id}"), || {
                (container_events(&adjusted, id) == events).then_some(())
            });
            assert_eq!(podman.process_of(id).env("NRI").as_deref(), Some("here"), "{id}");
        };
        let by_cgroup =
            podman.run_detached("cgroup", &[&[&*cgroups[0], IMAGE], &WAIT[..]].concat());
        check_adjusted(&by_cgroup, MEMBER_TO_START);
        assert_eq!(
            pod_events(&adjusted, &pods[0]),
            ["RunPodSandbox"],
            "the container is in the pod of its cgroup"
        );
        let by_name = podman
            .run_detached(&format!("{}-infra", &pods[0][..12]), &[&[IMAGE], &WAIT[..]].concat());
        check_adjusted(&by_name, &TO_START);
        // The file is a copy of Podman's program, but its owner is not root and could replace the
        // program before it runs.
        let program = podman.path("catatonit");
        copy_program(&suite.file("usr/bin/catatonit"), &program);
        std::os::unix::fs::chown(&program, Some(1000), None).unwrap();
        let volume = format!("--volume={}:/catatonit", program.display());
        let entrypoint = "--entrypoint=[\"/catatonit\",\"-P\"]";
        let by_program = podman.run_detached("program", &[&cgroups[1], &volume, entrypoint, IMAGE]);
        check_adjusted(&by_program, MEMBER_TO_START);

        // If a pod has an infra container, another container in the cgroup of the pod is not a
        // member of the pod.
        let pod = create_pod(podman, &[]);
        podman.out(&["pod", "start", "shop"]);
        let cgroup = format!("--cgroup-parent=/libpod_parent/{pod}");
        let outsider = podman.run_detached("outsider", &[&[&*cgroup, IMAGE], &WAIT[..]].concat());
        check_adjusted(&outsider, &TO_START);
        podman.out(&["rm", "--force", "outsider"]);
        assert_eq!(adjusted.events_until_removal(&outsider, 1), life_cycle(&[]));
        assert_eq!(
            pod_events(&adjusted, &pod),
            ["RunPodSandbox"],
            "the pod has events of the container in its cgroup"
        );
        assert_eq!(count_events(&adjusted, &pod, "CreateContainer"), 0);
    });
}
