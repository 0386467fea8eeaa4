//! Which infra containers are known as such: by the program that they run. What becomes of the
//! others, and of those who only process like one.

use super::pods::{BEGIN, count, of_container, of_pod, removed, whole};
use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

const PAUSE: &str = "localhost/pause:local";
const ONCE: [&str; 3] = ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"];

fn create_pod(podman: &Podman, more: &[&str]) -> String {
    podman.out(&[&["pod", "create", "--name", "shop", "--network=none"], more].concat())
}

fn infra_of(podman: &Podman, pod: &str) -> String {
    podman.out(&["pod", "inspect", "--format", "{{.InfraContainerID}}", pod])
}

/// A member comes, and the pod goes: the infra container is no container to plugins.
fn is_known(adjusted: &Adjusted<Podman>, pod: &str) {
    let podman = &adjusted.engine;
    let member = podman.run_detached("member", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
    let infra = infra_of(podman, "shop");
    assert_eq!(of_pod(adjusted, pod), ["RunPodSandbox"]);
    let received = adjusted.plugin.journal.entries();
    assert!(received.iter().all(|e| e["container_id"] != *infra), "it is no container to plugins");
    assert_eq!(podman.process_of(&infra).env("NRI"), None);
    assert_eq!(podman.process_of("member").env("NRI").as_deref(), Some("here"));
    podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
    removed(adjusted, pod, 1);
    assert_eq!(of_container(adjusted, &member), whole());
    assert_eq!(of_pod(adjusted, pod), ONCE);
}

#[test]
fn an_infra_container_with_a_name_of_its_own_is_a_sandbox() {
    for_each::<Podman>("pod --infra-name", |suite, go| {
        let adjusted = Adjusted::<Podman>::start(suite, go);
        let pod = create_pod(&adjusted.engine, &["--infra-name=something", "--share=ipc,uts"]);
        is_known(&adjusted, &pod);
    });
}

/// Its cgroup is beside those of other containers; the pod is known by the container's id.
#[test]
fn an_infra_container_without_a_pod_cgroup_is_a_sandbox() {
    for_each::<Podman>("pod --share-parent=false", |suite, go| {
        let adjusted = Adjusted::<Podman>::start(suite, go);
        let podman = &adjusted.engine;
        create_pod(podman, &["--share-parent=false"]);
        podman.out(&["pod", "start", "shop"]);
        let infra = infra_of(podman, "shop");
        wait_until("the pod", || (of_pod(&adjusted, &infra) == ["RunPodSandbox"]).then_some(()));
        is_known(&adjusted, &infra);
    });
}

/// As it is after `apt install podman catatonit`: no configuration names the program.
fn as_installed(suite: &Suite, go: &Program) -> Adjusted<Podman> {
    let podman = Podman::start_as_installed(suite);
    podman.nrictl(&["install", "podman", "--default"]).success();
    podman.nrictl(&["start"]).success();
    let config = json!({"rules": [{"adjust": adjustment()}]});
    let plugin = podman.connect("10-go", go, &config.to_string());
    Adjusted { engine: podman, plugin }
}

#[test]
fn an_infra_container_of_the_distributions_catatonit_is_a_sandbox() {
    for_each::<Podman>("pod, catatonit in /usr", |suite, go| {
        let adjusted = as_installed(suite, go);
        let pod = create_pod(&adjusted.engine, &[]);
        is_known(&adjusted, &pod);
    });
}

/// Until 5.5 Podman keeps the image that it has built with the program of then: it is told what to
/// do.
#[test]
fn an_infra_container_is_a_sandbox_after_an_upgrade_of_catatonit() {
    for_each::<Podman>("pod, catatonit upgraded", |suite, go| {
        let adjusted = as_installed(suite, go);
        let podman = &adjusted.engine;
        let pod = create_pod(podman, &[]);
        is_known(&adjusted, &pod);
        let upgrade = "cp /usr/bin/catatonit /usr/bin/new && echo >>/usr/bin/new && mv \
            /usr/bin/new /usr/bin/catatonit";
        podman.inside("/bin/sh".as_ref(), &["-c", upgrade]).success();
        if suite.version("podman") < (5, 6) {
            let pod = create_pod(podman, &[]);
            podman.out(&["pod", "start", "shop"]);
            let requested =
                adjusted.plugin.journal.wait_for("CreateContainer", &infra_of(podman, "shop"));
            assert_eq!(requested["pod"]["id"], *pod, "it is asked about, in its pod");
            let image =
                podman.out(&["inspect", "--format", "{{.ImageName}}", &infra_of(podman, "shop")]);
            let log = podman.log();
            assert!(log.contains(&format!("podman rmi {image}")), "{log}");
            podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
            wait_until("the end of the pod", || (of_pod(&adjusted, &pod) == ONCE).then_some(()));
            podman.out(&["rmi", &image]);
        }
        let pod = create_pod(podman, &[]);
        podman.out(&["pod", "start", "shop"]);
        wait_until("the pod", || (of_pod(&adjusted, &pod) == ["RunPodSandbox"]).then_some(()));
        let infra = infra_of(podman, "shop");
        assert_eq!(of_container(&adjusted, &infra), Vec::<String>::new(), "it is known again");
    });
}

#[test]
fn an_infra_container_of_the_configured_image_is_a_sandbox() {
    for_each::<Podman>("infra_image", |suite, go| {
        let podman = Podman::start_configured(suite, &format!("infra_image = {PAUSE:?}"));
        let adjusted = Adjusted::with(podman, go, &adjustment());
        let pod = create_pod(&adjusted.engine, &[]);
        is_known(&adjusted, &pod);
        // That image, with another program laid over its own.
        let cgroup = format!("--cgroup-parent=/{}", "0123456789abcdef".repeat(4));
        let id = adjusted
            .engine
            .run_detached("other", &[&cgroup, "--volume=/bin/busybox:/bin/sleep", PAUSE]);
        assert_eq!(adjusted.engine.process_of(&id).env("NRI").as_deref(), Some("here"));
    });
}

#[test]
fn an_infra_container_of_play_kube_is_a_sandbox() {
    for_each::<Podman>("play kube", |suite, go| {
        let adjusted = Adjusted::<Podman>::start(suite, go);
        let (podman, journal) = (&adjusted.engine, &adjusted.plugin.journal);
        let file = podman.path("pod.yaml");
        let config = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop"},
            "spec": {"containers": [{"name": "web", "image": IMAGE, "imagePullPolicy": "Never", "command": WAIT}]}
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
        removed(&adjusted, &pod, 1);
        assert_eq!(of_container(&adjusted, &member), whole());
        assert_eq!(of_pod(&adjusted, &pod), ONCE);
    });
}

/// It cannot be told from a container that only has the pod's cgroup, so it is asked about and
/// adjusted; yet all of the pod are in one pod.
#[test]
fn an_infra_container_with_another_program_is_adjusted_in_its_pod() {
    for (name, options) in [
        ("pod --infra-image", [format!("--infra-image={PAUSE}"), String::new()]),
        (
            "pod --infra-command",
            [format!("--infra-image={IMAGE}"), "--infra-command=sleep 600".to_owned()],
        ),
    ] {
        for_each::<Podman>(name, |suite, go| {
            let adjusted = Adjusted::<Podman>::start(suite, go);
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
            wait_until("the end of one", || {
                (of_container(&adjusted, &first) == whole()).then_some(())
            });

            podman.out(&["pod", "stop", "--time=1", "shop"]);
            removed(&adjusted, &pod, 1);
            podman.out(&["pod", "start", "shop"]);
            let again = [&whole(), BEGIN].concat();
            wait_until("the second life", || {
                (of_container(&adjusted, &second) == again).then_some(())
            });
            podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
            removed(&adjusted, &pod, 2);
            for id in [&infra, &second] {
                assert_eq!(of_container(&adjusted, id), whole().repeat(2));
            }
            assert_eq!(of_pod(&adjusted, &pod), ONCE.repeat(2));
        });
    }
}

/// Nothing is asked about a pod's sandbox: who only says to be one, by cgroup and name, is asked
/// about all the same.
#[test]
fn a_container_that_pretends_to_be_an_infra_container_is_adjusted() {
    for_each::<Podman>("pretended infra containers", |suite, go| {
        let adjusted = Adjusted::<Podman>::start(suite, go);
        let podman = &adjusted.engine;
        let pods = ["0123456789abcdef", "fedcba9876543210"].map(|digits| digits.repeat(4));
        let cgroups = pods.clone().map(|pod| format!("--cgroup-parent=/{pod}"));
        let is_adjusted = |id: &str, events: &[&str]| {
            // Engines do not wait for the last of these.
            wait_until("its events", || (of_container(&adjusted, id) == events).then_some(()));
            assert_eq!(podman.process_of(id).env("NRI").as_deref(), Some("here"), "{id}");
        };
        let by_cgroup =
            podman.run_detached("cgroup", &[&[&*cgroups[0], IMAGE], &WAIT[..]].concat());
        is_adjusted(&by_cgroup, BEGIN);
        assert_eq!(of_pod(&adjusted, &pods[0]), ["RunPodSandbox"], "in a pod as it says");
        let by_name = podman
            .run_detached(&format!("{}-infra", &pods[0][..12]), &[&[IMAGE], &WAIT[..]].concat());
        is_adjusted(&by_name, &TO_START);
        // Podman's program, which somebody else could exchange until it runs.
        let program = podman.path("catatonit");
        copy_program(&suite.file("usr/bin/catatonit"), &program);
        std::os::unix::fs::chown(&program, Some(1000), None).unwrap();
        let volume = format!("--volume={}:/catatonit", program.display());
        let entrypoint = "--entrypoint=[\"/catatonit\",\"-P\"]";
        let by_program = podman.run_detached("program", &[&cgroups[1], &volume, entrypoint, IMAGE]);
        is_adjusted(&by_program, BEGIN);

        // Into the cgroup of a pod that has an infra container.
        let pod = create_pod(podman, &[]);
        podman.out(&["pod", "start", "shop"]);
        let cgroup = format!("--cgroup-parent=/libpod_parent/{pod}");
        let guest = podman.run_detached("guest", &[&[&*cgroup, IMAGE], &WAIT[..]].concat());
        is_adjusted(&guest, &TO_START);
        podman.out(&["rm", "--force", "guest"]);
        assert_eq!(adjusted.removed(&guest, 1), life_cycle(&[]));
        assert_eq!(of_pod(&adjusted, &pod), ["RunPodSandbox"], "it is none of the pod");
        assert_eq!(count(&adjusted, &pod, "CreateContainer"), 0);
    });
}
