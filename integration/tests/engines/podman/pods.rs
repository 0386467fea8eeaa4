//! Tests of Podman's pods: with the default infra container, which is the pod's sandbox for
//! plugins, and without an infra container.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use serde_json::json;

/// Counts the events with this name of a pod and of all its containers.
pub(super) fn count_events(adjusted: &Adjusted<Podman>, pod: &str, event: &str) -> usize {
    adjusted.plugin.journal.events(pod).iter().filter(|e| *e == event).count()
}

/// Returns the events of a pod without the events of its containers.
pub(super) fn pod_events(adjusted: &Adjusted<Podman>, pod: &str) -> Vec<String> {
    let entries = adjusted.plugin.journal.entries_about(pod);
    let own = entries.iter().filter(|e| e["container_id"].is_null());
    own.map(|e| e["event"].as_str().unwrap().to_owned()).collect()
}

/// Returns the events of a container.
pub(super) fn container_events(adjusted: &Adjusted<Podman>, id: &str) -> Vec<String> {
    adjusted.plugin.journal.events(id)
}

/// Events of a container in a pod, from its creation to its start.
pub(super) const MEMBER_TO_START: &[&str] = TO_START.split_at(1).1;
/// Events of a container in a pod, from its stop to its removal.
const MEMBER_FROM_STOP: [&str; 2] = ["StopContainer", "RemoveContainer"];

/// Returns the events of a container in a pod, from its creation to its removal.
pub(super) fn member_life_cycle() -> Vec<&'static str> {
    [MEMBER_TO_START, &MEMBER_FROM_STOP].concat()
}

/// Creates the pod `shop` and returns its id.
fn create_pod(podman: &Podman, more: &[&str]) -> String {
    podman.out(
        &[&["pod", "create", "--name", "shop", "--network=none", "--label", "a=b"], more].concat(),
    )
}

/// Waits until the pod has been removed `n` times. Checks that all events of containers contain the
/// pod's id, and that the last event is the removal of the pod.
pub(super) fn wait_until_pod_removed(adjusted: &Adjusted<Podman>, pod: &str, n: usize) {
    wait_until(format_args!("the pod {pod} to be removed"), || {
        (count_events(adjusted, pod, "RemovePodSandbox") >= n).then_some(())
    });
    for entry in adjusted.plugin.journal.entries().iter().filter(|e| !e["container"].is_null()) {
        assert_eq!(entry["pod_id"], *pod, "{entry}");
    }
    assert_eq!(
        adjusted.plugin.journal.events(pod).last().unwrap(),
        "RemovePodSandbox",
        "the last event is not the removal of the pod"
    );
}

#[test]
fn a_podman_pod_with_an_infra_container_has_the_events_of_a_pod() {
    for_each::<Podman>("pod", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let (podman, journal) = (&adjusted.engine, &adjusted.plugin.journal);
        let pod = create_pod(podman, &[]);
        let first = podman.run_detached("first", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
        let second = podman.run_detached("second", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
        assert_eq!(pod_events(&adjusted, &pod), ["RunPodSandbox"]);
        let run = journal.wait_for("RunPodSandbox", &pod);
        assert_eq!((&run["pod"]["name"], &run["pod"]["id"]), (&json!("shop"), &json!(pod)));
        let infra = podman.out(&["pod", "inspect", "--format", "{{.InfraContainerID}}", "shop"]);
        assert_eq!(
            container_events(&adjusted, &infra),
            Vec::<String>::new(),
            "plugins received container events of the infra container"
        );
        let process = podman.process_of(&infra);
        assert_eq!(process.env("NRI"), None, "the plugin adjusted the infra container");
        assert!(
            process.0.program().is_some_and(|p| p.ends_with("catatonit")),
            "the infra container does not run Podman's own program"
        );
        for (id, name) in [(&first, "first"), (&second, "second")] {
            let requested = journal.wait_for("CreateContainer", id);
            assert_eq!(requested["pod"]["id"], *pod);
            assert_eq!(
                requested["pod"]["name"], "shop",
                "the pod's name in the request of a member"
            );
            assert_eq!(
                (&requested["container"]["name"], &requested["container"]["podSandboxId"]),
                (&json!(name), &json!(pod))
            );
            wait_until(format_args!("the events of {id}"), || {
                (container_events(&adjusted, id) == MEMBER_TO_START).then_some(())
            });
            assert_eq!(podman.out(&["exec", name, "sh", "-c", "echo $NRI"]), "here");
        }
        // The pod does not stop when one of its containers is removed.
        podman.out(&["rm", "--force", "first"]);
        wait_until("the first container to be removed", || {
            (container_events(&adjusted, &first) == member_life_cycle()).then_some(())
        });
        assert_eq!(pod_events(&adjusted, &pod), ["RunPodSandbox"]);

        // Podman stops the containers of a pod in any order, so only the last event is checked.
        podman.out(&["pod", "stop", "--time=1", "shop"]);
        wait_until_pod_removed(&adjusted, &pod, 1);
        assert_eq!(container_events(&adjusted, &second), member_life_cycle());
        assert_eq!(
            pod_events(&adjusted, &pod),
            ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
        );

        podman.out(&["pod", "start", "shop"]);
        wait_until("the second start", || {
            (container_events(&adjusted, &second)
                == [&member_life_cycle(), MEMBER_TO_START].concat())
            .then_some(())
        });
        podman.out(&["pod", "rm", "--force", "--time=1", "shop"]);
        wait_until_pod_removed(&adjusted, &pod, 2);
        assert_eq!(container_events(&adjusted, &second), member_life_cycle().repeat(2));
        assert_eq!(
            pod_events(&adjusted, &pod),
            ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"].repeat(2)
        );
    });
}

#[test]
fn a_podman_pod_stops_when_its_infra_container_is_killed() {
    for_each::<Podman>("pod, infra container killed", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let podman = &adjusted.engine;
        let pod = create_pod(podman, &[]);
        let member = podman.run_detached("member", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
        let infra = podman.out(&["pod", "inspect", "--format", "{{.InfraContainerID}}", "shop"]);
        let process = podman.process_of("member");
        podman.process_of(&infra).0.signal(rustix::process::Signal::KILL);
        wait_until("the pod to stop", || {
            (count_events(&adjusted, &pod, "StopPodSandbox") == 1).then_some(())
        });
        // Podman notices the exit of the infra container and deletes it in the runtime.
        wait_until("the infra container to be deleted", || {
            (podman.inspect(&infra)["State"]["Status"] == "exited").then_some(())
        });
        assert!(process.0.is_alive(), "the other container of the pod ended");
        assert_eq!(
            count_events(&adjusted, &pod, "RemovePodSandbox"),
            0,
            "a pod with a running container was removed"
        );
        podman.out(&["rm", "--force", "member"]);
        wait_until_pod_removed(&adjusted, &pod, 1);
        assert_eq!(container_events(&adjusted, &member), member_life_cycle());
        assert_eq!(
            pod_events(&adjusted, &pod),
            ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
        );
    });
}

#[test]
fn a_podman_pod_without_an_infra_container_has_the_events_of_a_pod() {
    for_each::<Podman>("pod, no infra container", |suite, go_plugin| {
        let adjusted = Adjusted::<Podman>::start(suite, go_plugin);
        let (podman, journal) = (&adjusted.engine, &adjusted.plugin.journal);
        let pod = podman.out(&["pod", "create", "--name", "bare", "--infra=false"]);
        let run = |name| {
            podman
                .run_detached(name, &[&["--pod=bare", "--network=none", IMAGE], &WAIT[..]].concat())
        };
        let (first, second) = (run("first"), run("second"));
        for id in [&first, &second] {
            assert_eq!(journal.wait_for("CreateContainer", id)["pod"]["id"], *pod);
            wait_until(format_args!("the events of {id}"), || {
                (container_events(&adjusted, id) == MEMBER_TO_START).then_some(())
            });
        }
        assert_eq!(
            pod_events(&adjusted, &pod),
            ["RunPodSandbox"],
            "the pod must start once, with its first container"
        );
        podman.out(&["rm", "--force", "first"]);
        wait_until("the first container to be removed", || {
            (container_events(&adjusted, &first) == member_life_cycle()).then_some(())
        });
        assert_eq!(pod_events(&adjusted, &pod), ["RunPodSandbox"]);
        podman.out(&["pod", "rm", "--force", "bare"]);
        wait_until_pod_removed(&adjusted, &pod, 1);
        assert_eq!(container_events(&adjusted, &second), member_life_cycle());
        assert_eq!(
            pod_events(&adjusted, &pod),
            ["RunPodSandbox", "StopPodSandbox", "RemovePodSandbox"]
        );
    });
}

#[test]
fn labels_of_a_podman_pod_are_annotations_of_the_pod() {
    for_each::<Podman>("labels of a pod", |suite, go_plugin| {
        if suite.version("podman") < (4, 8) {
            return limitation("labels of a pod", "the labels of this Podman are in a BoltDB");
        }
        let podman = Podman::start(suite);
        podman.configure("pods.annotations_from_labels = ['']\n");
        let adjusted = Adjusted::with(podman, go_plugin, &json!({}));
        let podman = &adjusted.engine;
        create_pod(podman, &[]);
        podman.out(&["pod", "create", "--name=bare", "--infra=false", "--label=a=b"]);
        for name in ["shop", "bare"] {
            let pod = format!("--pod={name}");
            let options = [&pod, "--network=none", "--label=c=d", IMAGE];
            let options = if name == "shop" { &[&pod, "--label=c=d", IMAGE] } else { &options[..] };
            let id = podman.run_detached(&format!("in-{name}"), &[options, &WAIT].concat());
            let requested = adjusted.plugin.journal.wait_for("CreateContainer", &id);
            let annotation = |of: &str, key: &str| requested[of]["annotations"][key].clone();
            let found = ["pod", "container"].map(|of| (annotation(of, "a"), annotation(of, "c")));
            assert_eq!(found, [(json!("b"), json!(null)), (json!(null), json!("d"))], "{name}");
            assert_eq!(requested["pod"]["namespace"], "default");
        }
    });
}
