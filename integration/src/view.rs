//! State of the containers and pods that a plugin knows, computed from its journal since the
//! synchronization, and the events that the plugin received out of order.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// States of a container, in the order of its life cycle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Contained in the synchronization; the exact state is unknown.
    Known,
    /// The plugin received CreateContainer.
    Requested,
    Created,
    Starting,
    Started,
    Stopped,
    Removed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PodPhase {
    Running,
    Stopped,
    Removed,
}

/// A plugin's view of the host.
#[derive(Debug, Default)]
pub struct View {
    containers: BTreeMap<String, (Phase, String)>,
    pods: BTreeMap<String, PodPhase>,
    /// Events that the plugin received out of order.
    pub wrong: Vec<String>,
    /// Whether the connection has ended.
    pub closed: bool,
    /// Whether the plugin has received Synchronize.
    pub synchronized: bool,
}

impl View {
    /// Events that a plugin must subscribe to so that its view is complete.
    pub const EVENTS: [&str; 11] = [
        "RunPodSandbox",
        "CreateContainer",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "UpdateContainer",
        "PostUpdateContainer",
        "StopContainer",
        "StopPodSandbox",
        "RemoveContainer",
        "RemovePodSandbox",
    ];

    /// Computes the view from the journal of one session.
    pub fn of(entries: &[Value]) -> Self {
        let mut view = Self::default();
        entries.iter().for_each(|entry| view.receive(entry));
        view
    }

    /// Containers that exist and have not stopped: a synchronization contains no others either.
    pub fn containers(&self) -> BTreeSet<String> {
        let live = self.containers.iter().filter(|(_, (phase, _))| *phase < Phase::Stopped);
        live.map(|(id, _)| id.clone()).collect()
    }

    /// Pods that exist and have not stopped.
    pub fn pods(&self) -> BTreeSet<String> {
        let live = self.pods.iter().filter(|(_, phase)| **phase < PodPhase::Stopped);
        live.map(|(id, _)| id.clone()).collect()
    }

    /// Containers and pods of which the plugin has not received the removal.
    pub fn unfinished(&self) -> Vec<String> {
        let containers = self.containers.iter().filter(|(_, (phase, _))| *phase < Phase::Removed);
        let pods = self.pods.iter().filter(|(_, phase)| **phase < PodPhase::Removed);
        containers
            .map(|(id, _)| id.clone())
            .chain(pods.map(|(id, _)| format!("pod {id}")))
            .collect()
    }

    fn receive(&mut self, entry: &Value) {
        let text = |key: &str| entry[key].as_str().filter(|id| !id.is_empty());
        let pod = text("pod_id").or_else(|| text("pod"));
        let container = text("container_id").or_else(|| text("container"));
        match (text("event").unwrap_or_default(), pod, container) {
            ("Synchronize", _, _) => {
                self.synchronized = true;
                self.synchronize(entry, pod, container);
            }
            ("Closed", _, _) => self.closed = true,
            (event, Some(pod), None) => self.pod_event(event, pod),
            (event, Some(pod), Some(container)) => self.container_event(event, pod, container),
            // Configure, replies to updates.
            _ => {}
        }
    }

    /// Adds the containers and pods of a synchronization. The Go plugin writes one entry with
    /// lists, the example of the SDK one entry for each container and pod.
    fn synchronize(&mut self, entry: &Value, pod: Option<&str>, container: Option<&str>) {
        let list = |key: &str| -> Vec<String> {
            entry[key]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|v| Some(v.as_str()?.to_owned()))
                .collect()
        };
        let (mut pods, mut containers) = (list("pods"), list("containers"));
        match container {
            Some(id) => containers.push(id.to_owned()),
            None => pods.extend(pod.map(str::to_owned)),
        }
        for id in pods {
            if self.pods.insert(id.clone(), PodPhase::Running).is_some() {
                self.wrong.push(format!("synchronized with the pod {id} twice"));
            }
        }
        for id in containers {
            let pod = pod.unwrap_or_default().to_owned();
            if !pod.is_empty() && !self.pods.contains_key(&pod) {
                self.wrong.push(format!("synchronized with {id} and not with its pod"));
            }
            if self.containers.insert(id.clone(), (Phase::Known, pod)).is_some() {
                self.wrong.push(format!("synchronized with {id} twice"));
            }
        }
    }

    fn pod_event(&mut self, event: &str, id: &str) {
        use PodPhase::*;
        let before = self.pods.get(id).copied();
        // An unknown one was ending when the plugin connected.
        let (after, fits) = match event {
            "RunPodSandbox" => (Running, before.is_none_or(|phase| phase == Removed)),
            "StopPodSandbox" => (Stopped, before.is_none_or(|phase| phase == Running)),
            // A pod that had stopped before is in no synchronization.
            "RemovePodSandbox" => (Removed, before.is_none_or(|phase| phase == Stopped)),
            _ => return,
        };
        let is_member_left = |(phase, pod): &(Phase, String)| {
            let limit = if event == "StopPodSandbox" { Phase::Stopped } else { Phase::Removed };
            pod == id && *phase < limit && *phase != Phase::Known
        };
        let has_containers =
            event != "RunPodSandbox" && self.containers.values().any(is_member_left);
        if !fits || has_containers {
            self.wrong.push(format!(
                "{event} of pod {id} in state {before:?}, containers left: {has_containers}"
            ));
        }
        self.pods.insert(id.to_owned(), after);
    }

    fn container_event(&mut self, event: &str, pod: &str, id: &str) {
        use Phase::*;
        let before = self.containers.get(id).map(|(phase, _)| *phase);
        let is = |list: &[Phase]| before.is_some_and(|phase| list.contains(&phase));
        let unknown = before.is_none();
        let (after, fits) = match event {
            "CreateContainer" => {
                let has_pod = self.pods.get(pod) == Some(&PodPhase::Running);
                (Requested, (unknown || is(&[Removed])) && has_pod)
            }
            "ValidateContainerAdjustment" => (Requested, is(&[Requested])),
            "PostCreateContainer" => (Created, is(&[Requested, Known])),
            "StartContainer" => (Starting, is(&[Created, Known])),
            "PostStartContainer" => (Started, is(&[Starting, Known])),
            "UpdateContainer" | "PostUpdateContainer" => {
                (before.unwrap_or(Known), is(&[Known, Created, Starting, Started]))
            }
            // An unknown one was ending when the plugin connected.
            "StopContainer" => (Stopped, unknown || before.is_some_and(|phase| phase < Stopped)),
            "RemoveContainer" => (Removed, unknown || is(&[Stopped])),
            _ => return,
        };
        if !fits {
            self.wrong.push(format!("{event} of container {id} in state {before:?}"));
        }
        self.containers.insert(id.to_owned(), (after, pod.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIFE: &str = "RunPodSandbox CreateContainer ValidateContainerAdjustment \
            PostCreateContainer StartContainer PostStartContainer UpdateContainer \
            PostUpdateContainer StopContainer StopPodSandbox RemoveContainer RemovePodSandbox";

    /// Computes a view from events of container `c` in pod `p`; the suffix `:d` selects container
    /// `d`.
    fn view(pods: &[&str], containers: &[&str], events: &str) -> View {
        let mut entries =
            vec![json!({"event": "Synchronize", "pods": pods, "containers": containers})];
        entries.extend(events.split_whitespace().map(|event| {
            let (event, container) =
                event.strip_suffix(":d").map_or((event, "c"), |event| (event, "d"));
            let container = if event.contains("Pod") { "" } else { container };
            json!({"event": event, "pod_id": "p", "container_id": container})
        }));
        View::of(&entries)
    }

    #[test]
    fn events_in_order_are_accepted() {
        for events in [
            LIFE,
            &format!("{LIFE} {LIFE}"),
            "RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox \
                RemovePodSandbox",
            "RunPodSandbox CreateContainer StopContainer RemoveContainer CreateContainer \
                            PostCreateContainer",
            "RunPodSandbox CreateContainer CreateContainer:d StopContainer RemoveContainer \
                            StopContainer:d RemoveContainer:d StopPodSandbox RemovePodSandbox",
            "StopPodSandbox RemoveContainer RemovePodSandbox",
            "RemovePodSandbox",
            "StopContainer RemoveContainer",
        ] {
            assert_eq!(view(&[], &[], events).wrong, [""; 0], "{events}");
        }
        for events in [
            "PostCreateContainer StartContainer",
            "StopContainer StopPodSandbox RemoveContainer RemovePodSandbox",
        ] {
            assert_eq!(view(&["p"], &["c"], events).wrong, [""; 0], "{events}");
        }
        let requested = view(&[], &[], "RunPodSandbox CreateContainer");
        assert!(requested.containers().contains("c") && requested.pods().contains("p"));
        assert!(view(&[], &[], LIFE).unfinished().is_empty());
        let stopped = view(&["p"], &["c"], "StopContainer StopPodSandbox");
        assert!(stopped.containers().is_empty() && stopped.pods().is_empty());
        assert_eq!(stopped.unfinished(), ["c", "pod p"]);
    }

    #[test]
    fn events_out_of_order_are_reported() {
        for (known, events) in [
            (false, "CreateContainer"),
            (false, "RunPodSandbox StartContainer:d"),
            (false, "RunPodSandbox RunPodSandbox"),
            (false, "RunPodSandbox CreateContainer CreateContainer"),
            (false, "RunPodSandbox CreateContainer StartContainer"),
            (false, "RunPodSandbox CreateContainer PostCreateContainer PostStartContainer"),
            (
                false,
                "RunPodSandbox CreateContainer PostCreateContainer StopContainer StopContainer",
            ),
            (false, "RunPodSandbox CreateContainer RemoveContainer"),
            (false, "RunPodSandbox CreateContainer PostCreateContainer StopPodSandbox"),
            (
                false,
                "RunPodSandbox CreateContainer CreateContainer:d StopContainer RemoveContainer \
                    StopPodSandbox",
            ),
            (false, "RunPodSandbox CreateContainer StopContainer RemoveContainer RemovePodSandbox"),
            (false, "RunPodSandbox CreateContainer StopContainer RemoveContainer UpdateContainer"),
            (false, "RunPodSandbox CreateContainer StopContainer StopPodSandbox RemovePodSandbox"),
            (false, "RemoveContainer RemoveContainer"),
            (true, "CreateContainer"),
            (true, "RunPodSandbox"),
            (true, "StartContainer StartContainer"),
            (true, "RemoveContainer"),
            (true, "StopContainer RemoveContainer PostUpdateContainer"),
        ] {
            let (pods, containers): (&[_], &[_]) =
                if known { (&["p"], &["c"]) } else { (&[], &[]) };
            assert!(!view(pods, containers, events).wrong.is_empty(), "{known} {events}");
        }
        assert!(!view(&["p"], &["c", "c"], "").wrong.is_empty());
        assert!(!view(&["p", "p"], &[], "").wrong.is_empty());
        let without_pod =
            View::of(&[json!({"event": "Synchronize", "pod": "p", "container": "c"})]);
        assert!(!without_pod.wrong.is_empty());
    }

    #[test]
    fn journals_of_go_and_rust_plugins_are_read() {
        let entries = [
            json!({"event": "Synchronize"}),
            json!({"event": "Synchronize", "pod": "a"}),
            json!({"event": "Synchronize", "pod": "a", "container": "a"}),
            json!({"event": "RunPodSandbox", "pod": "b"}),
            json!({"event": "CreateContainer", "pod": "b", "container": "b"}),
        ];
        let view = View::of(&entries);
        assert_eq!(view.wrong, [""; 0]);
        assert_eq!(view.containers(), ["a", "b"].map(str::to_owned).into());
        assert_eq!(view.pods(), ["a", "b"].map(str::to_owned).into());
    }
}
