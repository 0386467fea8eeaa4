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
    pub out_of_order: Vec<String>,
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

    /// Containers that exist and have not stopped, as in a synchronization.
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
            // Configure and replies to updates concern no container.
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
                self.out_of_order.push(format!("synchronized with the pod {id} twice"));
            }
        }
        for id in containers {
            let pod = pod.unwrap_or_default().to_owned();
            if !pod.is_empty() && !self.pods.contains_key(&pod) {
                self.out_of_order.push(format!("synchronized with {id} but not with its pod"));
            }
            if self.containers.insert(id.clone(), (Phase::Known, pod)).is_some() {
                self.out_of_order.push(format!("synchronized with {id} twice"));
            }
        }
    }

    /// Applies an event of a pod, and checks its order.
    fn pod_event(&mut self, event: &str, id: &str) {
        use PodPhase::*;
        let before = self.pods.get(id).copied();
        // A pod that the plugin does not know was ending when the plugin connected.
        let (after, is_in_order) = match event {
            "RunPodSandbox" => (Running, before.is_none_or(|phase| phase == Removed)),
            "StopPodSandbox" => (Stopped, before.is_none_or(|phase| phase == Running)),
            // The synchronization does not contain stopped pods.
            "RemovePodSandbox" => (Removed, before.is_none_or(|phase| phase == Stopped)),
            _ => return,
        };
        let is_member_left = |(phase, pod): &(Phase, String)| {
            let limit = if event == "StopPodSandbox" { Phase::Stopped } else { Phase::Removed };
            pod == id && *phase < limit && *phase != Phase::Known
        };
        let has_containers =
            event != "RunPodSandbox" && self.containers.values().any(is_member_left);
        if !is_in_order || has_containers {
            self.out_of_order.push(format!(
                "{event} of pod {id} in state {before:?}, containers left: {has_containers}"
            ));
        }
        self.pods.insert(id.to_owned(), after);
    }

    /// Applies an event of a container, and checks its order.
    fn container_event(&mut self, event: &str, pod: &str, id: &str) {
        use Phase::*;
        let before = self.containers.get(id).map(|(phase, _)| *phase);
        let is_one_of = |list: &[Phase]| before.is_some_and(|phase| list.contains(&phase));
        let unknown = before.is_none();
        let (after, is_in_order) = match event {
            "CreateContainer" => {
                let has_pod = self.pods.get(pod) == Some(&PodPhase::Running);
                (Requested, (unknown || is_one_of(&[Removed])) && has_pod)
            }
            "ValidateContainerAdjustment" => (Requested, is_one_of(&[Requested])),
            "PostCreateContainer" => (Created, is_one_of(&[Requested, Known])),
            "StartContainer" => (Starting, is_one_of(&[Created, Known])),
            "PostStartContainer" => (Started, is_one_of(&[Starting, Known])),
            "UpdateContainer" | "PostUpdateContainer" => {
                (before.unwrap_or(Known), is_one_of(&[Known, Created, Starting, Started]))
            }
            // A container that the plugin does not know was ending when the plugin connected.
            "StopContainer" => (Stopped, unknown || before.is_some_and(|phase| phase < Stopped)),
            "RemoveContainer" => (Removed, unknown || is_one_of(&[Stopped])),
            _ => return,
        };
        if !is_in_order {
            self.out_of_order.push(format!("{event} of container {id} in state {before:?}"));
        }
        self.containers.insert(id.to_owned(), (after, pod.to_owned()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Events of a whole life cycle.
    const LIFE_CYCLE: &str = "RunPodSandbox CreateContainer ValidateContainerAdjustment \
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
            LIFE_CYCLE,
            &format!("{LIFE_CYCLE} {LIFE_CYCLE}"),
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
            assert_eq!(view(&[], &[], events).out_of_order, [""; 0], "{events}");
        }
        for events in [
            "PostCreateContainer StartContainer",
            "StopContainer StopPodSandbox RemoveContainer RemovePodSandbox",
        ] {
            assert_eq!(view(&["p"], &["c"], events).out_of_order, [""; 0], "{events}");
        }
        let requested = view(&[], &[], "RunPodSandbox CreateContainer");
        assert!(requested.containers().contains("c") && requested.pods().contains("p"));
        assert!(view(&[], &[], LIFE_CYCLE).unfinished().is_empty());
        let stopped = view(&["p"], &["c"], "StopContainer StopPodSandbox");
        assert!(stopped.containers().is_empty() && stopped.pods().is_empty());
        assert_eq!(stopped.unfinished(), ["c", "pod p"]);
    }

    #[test]
    fn events_out_of_order_are_reported() {
        for (is_synchronized, events) in [
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
                if is_synchronized { (&["p"], &["c"]) } else { (&[], &[]) };
            assert!(
                !view(pods, containers, events).out_of_order.is_empty(),
                "synchronized with c: {is_synchronized}, no defect found in: {events}"
            );
        }
        assert!(!view(&["p"], &["c", "c"], "").out_of_order.is_empty());
        assert!(!view(&["p", "p"], &[], "").out_of_order.is_empty());
        let without_pod =
            View::of(&[json!({"event": "Synchronize", "pod": "p", "container": "c"})]);
        assert!(!without_pod.out_of_order.is_empty());
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
        assert_eq!(view.out_of_order, [""; 0]);
        assert_eq!(view.containers(), ["a", "b"].map(str::to_owned).into());
        assert_eq!(view.pods(), ["a", "b"].map(str::to_owned).into());
    }
}
