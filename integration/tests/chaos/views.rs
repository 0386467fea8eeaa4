//! What a plugin believes: its journal, from the synchronization on. Each container goes its way once and in order, and what is left is there.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A container, and its pod (which has its id), as a plugin has heard of them so far.
#[derive(Debug, Default, Clone)]
struct Heard {
    pod: Option<PodPhase>,
    container: Option<Phase>,
    /// Something was heard of it before.
    begun: bool,
    /// How many of [`END`] were heard of a container that was ending when the plugin came.
    ended: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PodPhase {
    /// Synchronized with it: it may have been stopped.
    Known,
    Runs,
    Stopped,
}

/// The order is that of a life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Synchronized with it, in whatever state.
    Known,
    Asked,
    Created,
    Starting,
    Started,
    Stopped,
}

/// How a container ends. Who comes in the midst of it hears the rest.
const END: [&str; 4] = ["StopContainer", "StopPodSandbox", "RemoveContainer", "RemovePodSandbox"];

/// A plugin's view of the host.
#[derive(Debug, Default)]
pub(super) struct View {
    heard: BTreeMap<String, Heard>,
    /// What came out of order.
    pub(super) wrong: Vec<String>,
    /// How many events there were.
    pub(super) events: usize,
    /// The connection has ended.
    pub(super) closed: bool,
    pub(super) synchronized: bool,
}

impl View {
    /// From a journal of one session.
    pub(super) fn of(entries: &[Value]) -> Self {
        let mut view = Self::default();
        entries.iter().for_each(|entry| view.hear(entry));
        view
    }

    /// The containers that it believes to be there, and not stopped: others are in no synchronization either.
    pub(super) fn containers(&self) -> BTreeSet<String> {
        self.ids(|heard| heard.container.is_some_and(|phase| phase != Phase::Stopped))
    }

    /// The pods that it believes to be there, and not stopped.
    pub(super) fn pods(&self) -> BTreeSet<String> {
        self.ids(|heard| heard.pod.is_some_and(|phase| phase != PodPhase::Stopped))
    }

    /// Those of which it has not heard the end.
    pub(super) fn unfinished(&self) -> BTreeSet<String> {
        self.ids(|heard| heard.container.is_some() || heard.pod.is_some())
    }

    fn ids(&self, is: impl Fn(&Heard) -> bool) -> BTreeSet<String> {
        self.heard.iter().filter(|(_, heard)| is(heard)).map(|(id, _)| id.clone()).collect()
    }

    fn hear(&mut self, entry: &Value) {
        let text = |key: &str| entry[key].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        match text("event").unwrap_or_default().as_str() {
            "Synchronize" => {
                self.synchronized = true;
                // The Go plugin writes lists, that of the SDK a line for each.
                let list = |key: &str| entry[key].as_array().cloned().unwrap_or_default();
                let (pods, containers) = (list("pods"), list("containers"));
                let names = |list: Vec<Value>| list.into_iter().filter_map(|v| Some(v.as_str()?.to_owned()));
                names(pods).for_each(|id| self.know_pod(&id));
                names(containers).for_each(|id| self.know(&id));
                match (text("pod"), text("container")) {
                    (_, Some(id)) => self.know(&id),
                    (Some(id), None) => self.know_pod(&id),
                    _ => {}
                }
            }
            "Closed" => self.closed = true,
            event => {
                // Other entries are about no container: the configuration, answers to updates.
                if let Some(id) = text("pod_id").or_else(|| text("pod")) {
                    self.events += 1;
                    let heard = self.heard.entry(id.clone()).or_default();
                    let before = heard.clone();
                    if !heard.next(event) {
                        self.wrong.push(format!("{event} of {id}, which it had as {before:?}"));
                    }
                }
            }
        }
    }

    fn know_pod(&mut self, id: &str) {
        let heard = self.heard.entry(id.to_owned()).or_default();
        if heard.pod.replace(PodPhase::Known).is_some() {
            self.wrong.push(format!("synchronized with the pod {id} twice"));
        }
    }

    fn know(&mut self, id: &str) {
        let heard = self.heard.entry(id.to_owned()).or_default();
        if heard.pod.is_none() {
            self.wrong.push(format!("synchronized with {id} and not with its pod"));
        }
        if heard.container.replace(Phase::Known).is_some() {
            self.wrong.push(format!("synchronized with {id} twice"));
        }
    }
}

impl Heard {
    /// Whether this belongs to the end of a container that the plugin has never known.
    fn is_late(&mut self, event: &str) -> bool {
        let begun = std::mem::replace(&mut self.begun, true);
        let Some(place) = END.iter().position(|e| *e == event) else {
            self.ended = 0;
            return false;
        };
        let late = self.container.is_none() && (!begun || (self.ended > 0 && place >= self.ended));
        self.ended = if late { place + 1 } else { 0 };
        late
    }

    /// Whether this may come next.
    fn next(&mut self, event: &str) -> bool {
        use Phase::*;
        let late = self.is_late(event);
        let container = self.container;
        let is = |list: &[Phase]| container.is_some_and(|phase| list.contains(&phase));
        let mut to = |phase, allowed: bool| {
            self.container = phase;
            allowed
        };
        match event {
            "RunPodSandbox" => self.pod.replace(PodPhase::Runs).is_none() && container.is_none(),
            "CreateContainer" => {
                to(Some(Asked), container.is_none())
                    && matches!(self.pod, Some(PodPhase::Runs | PodPhase::Known))
            }
            "ValidateContainerAdjustment" => is(&[Asked]),
            "PostCreateContainer" => to(Some(Created), is(&[Asked, Known])),
            "StartContainer" => to(Some(Starting), is(&[Created, Known])),
            "PostStartContainer" => to(Some(Started), is(&[Starting, Known])),
            "UpdateContainer" | "PostUpdateContainer" => is(&[Known, Created, Starting, Started]),
            "StopContainer" => to(Some(Stopped), container.is_some_and(|phase| phase < Stopped) || late),
            "StopPodSandbox" => {
                let runs =
                    matches!(self.pod.replace(PodPhase::Stopped), Some(PodPhase::Runs | PodPhase::Known));
                // Its container has stopped before, or is removed, or it was known as a stopped one.
                (runs || late) && (container.is_none() || is(&[Stopped, Known]))
            }
            "RemoveContainer" => to(None, is(&[Stopped, Known]) || late),
            "RemovePodSandbox" => {
                let stopped = matches!(self.pod.take(), Some(PodPhase::Stopped | PodPhase::Known));
                (stopped || late) && container.is_none()
            }
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const LIFE: &str = "RunPodSandbox CreateContainer ValidateContainerAdjustment PostCreateContainer StartContainer \
        PostStartContainer UpdateContainer PostUpdateContainer StopContainer StopPodSandbox RemoveContainer RemovePodSandbox";

    fn view(known: &[&str], events: &str) -> View {
        let mut entries = vec![json!({"event": "Synchronize", "pods": known, "containers": known})];
        entries.extend(events.split_whitespace().map(|e| json!({"event": e, "pod_id": "c"})));
        View::of(&entries)
    }

    #[test]
    fn what_may_be_heard() {
        for events in [
            LIFE,
            &format!("{LIFE} {LIFE}"),
            "RunPodSandbox CreateContainer StopContainer RemoveContainer StopPodSandbox RemovePodSandbox",
            "RunPodSandbox CreateContainer StopContainer RemoveContainer CreateContainer PostCreateContainer",
            "StopPodSandbox RemoveContainer RemovePodSandbox",
            "RemovePodSandbox",
        ] {
            assert_eq!(view(&[], events).wrong, [""; 0], "{events}");
        }
        for events in [
            "PostCreateContainer StartContainer",
            "StopPodSandbox RemoveContainer",
            "RemoveContainer RemovePodSandbox",
        ] {
            assert_eq!(view(&["c"], events).wrong, [""; 0], "{events}");
        }
        assert!(view(&[], "RunPodSandbox CreateContainer").containers().contains("c"));
        assert!(view(&[], LIFE).unfinished().is_empty());
        let stopped = view(&["c"], "StopContainer StopPodSandbox");
        assert!(stopped.containers().is_empty() && stopped.pods().is_empty());
        assert!(stopped.unfinished().contains("c"));
    }

    #[test]
    fn what_may_not_be_heard() {
        for (known, events) in [
            (&[][..], "CreateContainer"),
            (&[], "StartContainer"),
            (&[], "RunPodSandbox RunPodSandbox"),
            (&[], "RunPodSandbox CreateContainer CreateContainer"),
            (&[], "RunPodSandbox CreateContainer StartContainer"),
            (&[], "RunPodSandbox CreateContainer PostCreateContainer PostStartContainer"),
            (&[], "RunPodSandbox CreateContainer PostCreateContainer StopContainer StopContainer"),
            (&[], "RunPodSandbox CreateContainer RemoveContainer"),
            (&[], "RunPodSandbox CreateContainer PostCreateContainer StopPodSandbox"),
            (&[], "RunPodSandbox CreateContainer StopContainer RemoveContainer RemovePodSandbox"),
            (&[], "RunPodSandbox CreateContainer StopContainer RemoveContainer UpdateContainer"),
            (&[], "RemoveContainer RemoveContainer"),
            (&["c"], "CreateContainer"),
            (&["c"], "RunPodSandbox"),
            (&["c"], "StartContainer StartContainer"),
            (&["c"], "RemoveContainer PostUpdateContainer"),
            (&["c", "c"], ""),
        ] {
            assert!(!view(known, events).wrong.is_empty(), "{known:?} {events}");
        }
        let alone = View::of(&[json!({"event": "Synchronize", "pods": [], "containers": ["c"]})]);
        assert!(!alone.wrong.is_empty());
    }

    #[test]
    fn both_languages() {
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
        assert_eq!(view.events, 2);
    }
}
