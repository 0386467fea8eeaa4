//! Circuit breaker of a plugin with a budget: decides from the times of its replies when requests
//! skip the plugin, and when they reach it again. It reads no clock and calls nothing.
//!
//! Whoever creates containers can make some of them slow for a plugin, and must not be able to make
//! the plugin absent by them. Therefore a container counts once, however often it is created or
//! updated; a container is known by its name, since each creation has an id of its own. Of each
//! namespace only the last few containers count, and the plugin is limited only if it is slow in
//! most of the namespaces: one tenant cannot outvote the others. Where all containers are in one
//! namespace, names can be chosen, and only the number of containers that it takes remains. A
//! plugin that must not be absent at all has no breaker (`crate::policy::budget`).

use crate::policy::budget::Budget;
use nri_api::proto::{Container, PodSandbox};
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

/// Time during which a container counts.
const WINDOW: Duration = Duration::from_secs(600);

/// Number of the last containers of a namespace that count. Half of them are created within
/// seconds where a slow plugin matters.
const CONTAINERS: usize = 10;

/// Limit of the namespaces, for memory; the one that was idle for longest goes first.
const NAMESPACES: usize = 16;

/// Number of containers below which nothing is decided: a plugin may be slow for its first ones.
const LEAST: usize = 5;

/// Limit of the namespaces in which a limited plugin is tried after one pause, so that a plugin
/// that is still slow costs little.
const TRIES: usize = 4;

/// The container that a request is about, in a form of fixed size: names may be long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Source {
    namespace: u64,
    container: u64,
}

impl Source {
    /// Returns the source of a request about a container.
    pub(crate) fn of(pod: &PodSandbox, container: &Container) -> Self {
        let or_id = |name: &str, id: &str| if name.is_empty() { id } else { name }.to_owned();
        let pod_name = or_id(&pod.name, &pod.id);
        let name = or_id(&container.name, &container.id);
        Self { namespace: hash(&pod.namespace), container: hash(&(&pod.namespace, pod_name, name)) }
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// A change of the breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BreakerChange {
    /// Requests skip the plugin from now on.
    Opened,
    /// Requests reach the plugin again.
    Closed,
}

/// The breaker of one session of a plugin.
#[derive(Debug, Default)]
pub(crate) struct Breaker {
    namespaces: Vec<Namespace>,
    open: Option<Open>,
}

/// The last containers of a namespace, the latest at the end.
#[derive(Debug)]
struct Namespace {
    key: u64,
    samples: VecDeque<Sample>,
}

/// The last reply about a container.
#[derive(Debug, Clone, Copy)]
struct Sample {
    container: u64,
    at: Instant,
    is_slow: bool,
}

/// State of a breaker while requests skip the plugin.
#[derive(Debug)]
struct Open {
    /// End of the pause.
    until: Instant,
    /// Namespaces in which the plugin was tried after the last pause.
    tried: Vec<u64>,
}

impl Breaker {
    /// Whether a request reaches the plugin: any while the breaker is closed, and else one per
    /// pause and namespace.
    pub(crate) fn admits(&mut self, now: Instant, source: Source, budget: Budget) -> bool {
        let is_slow = self.is_known_as_slow(source);
        let Some(open) = &mut self.open else { return true };
        // A container that was slow before says little, so others come first.
        let due = if is_slow { open.until + budget.pause } else { open.until };
        if now >= due {
            *open = Open { until: now + budget.pause, tried: vec![source.namespace] };
            return true;
        }
        let others = 1..TRIES;
        let is_other =
            others.contains(&open.tried.len()) && !open.tried.contains(&source.namespace);
        if is_other && !is_slow {
            open.tried.push(source.namespace);
        }
        is_other && !is_slow
    }

    /// Records a reply that took longer than the budget's time, or not.
    pub(crate) fn record(
        &mut self,
        now: Instant,
        source: Source,
        is_slow: bool,
        budget: Budget,
    ) -> Option<BreakerChange> {
        let sample = Sample { container: source.container, at: now, is_slow };
        if self.open.is_some() && !is_slow {
            self.open = None;
            // Otherwise the first slow reply would open it again.
            self.namespaces.iter_mut().for_each(|n| n.samples.retain(|sample| !sample.is_slow));
            self.add(source.namespace, sample);
            return Some(BreakerChange::Closed);
        }
        self.add(source.namespace, sample);
        if self.open.is_some() || !self.is_exceeded(now, budget.share) {
            return None;
        }
        self.open = Some(Open { until: now + budget.pause, tried: Vec::new() });
        Some(BreakerChange::Opened)
    }

    /// Returns when the plugin is tried again, while requests skip it.
    pub(crate) fn next_try(&self) -> Option<Instant> {
        self.open.as_ref().map(|open| open.until)
    }

    fn is_known_as_slow(&self, source: Source) -> bool {
        let of_namespace = self.namespaces.iter().filter(|n| n.key == source.namespace);
        let mut samples = of_namespace.flat_map(|namespace| &namespace.samples);
        samples.any(|sample| sample.container == source.container && sample.is_slow)
    }

    fn add(&mut self, key: u64, sample: Sample) {
        let known = self.namespaces.iter().position(|namespace| namespace.key == key);
        let mut namespace = match known {
            Some(at) => self.namespaces.remove(at),
            None => Namespace { key, samples: VecDeque::with_capacity(CONTAINERS) },
        };
        namespace.samples.retain(|known| known.container != sample.container);
        if namespace.samples.len() == CONTAINERS {
            namespace.samples.pop_front();
        }
        namespace.samples.push_back(sample);
        if self.namespaces.len() == NAMESPACES {
            self.namespaces.remove(0);
        }
        self.namespaces.push(namespace);
    }

    /// Whether more than `share` percent of the containers were slow, both of all and of those of
    /// each of most namespaces.
    fn is_exceeded(&self, now: Instant, share: u8) -> bool {
        let is_recent = |sample: &&Sample| now.duration_since(sample.at) <= WINDOW;
        let counts = self.namespaces.iter().map(|namespace| {
            let recent = namespace.samples.iter().filter(is_recent);
            recent.fold((0, 0), |(all, slow), s| (all + 1, slow + usize::from(s.is_slow)))
        });
        let counts: Vec<(usize, usize)> = counts.filter(|(all, _)| *all > 0).collect();
        let exceeds = |(all, slow): (usize, usize)| slow * 100 > usize::from(share) * all;
        let total = counts.iter().fold((0, 0), |(a, b), (all, slow)| (a + all, b + slow));
        let slow_namespaces = counts.iter().filter(|counts| exceeds(**counts)).count();
        total.0 >= LEAST && exceeds(total) && slow_namespaces * 2 > counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use BreakerChange::{Closed, Opened};

    const PAUSE: Duration = Duration::from_secs(30);

    /// A breaker with a clock of its own.
    struct Case {
        breaker: Breaker,
        now: Instant,
        budget: Budget,
    }

    impl Case {
        fn new(share: u8) -> Self {
            let budget = Budget { time: Duration::from_millis(200), share, pause: PAUSE };
            Self { breaker: Breaker::default(), now: Instant::now(), budget }
        }

        fn pass(&mut self, time: Duration) {
            self.now += time;
        }

        fn admits(&mut self, namespace: &str, name: &str) -> bool {
            self.breaker.admits(self.now, source(namespace, name), self.budget)
        }

        fn record(&mut self, namespace: &str, name: &str, is_slow: bool) -> Option<BreakerChange> {
            self.pass(Duration::from_secs(1));
            self.breaker.record(self.now, source(namespace, name), is_slow, self.budget)
        }

        /// Records containers `0..number`, and returns at which the breaker opened.
        fn slow(&mut self, namespace: &str, number: usize) -> Option<usize> {
            (0..number).find(|n| self.record(namespace, &n.to_string(), true) == Some(Opened))
        }

        fn fast(&mut self, namespace: &str, number: usize) {
            for n in 0..number {
                assert_eq!(self.record(namespace, &format!("fast{n}"), false), None);
            }
        }
    }

    fn source(namespace: &str, name: &str) -> Source {
        let pod =
            PodSandbox { namespace: namespace.into(), name: "p".into(), ..Default::default() };
        Source::of(&pod, &Container { name: name.into(), ..Default::default() })
    }

    #[test]
    fn it_opens_above_the_share_of_at_least_five_containers() {
        assert_eq!(Case::new(50).slow("", LEAST), Some(LEAST - 1));
        assert_eq!(Case::new(99).slow("", LEAST), Some(LEAST - 1));
        assert_eq!(Case::new(0).slow("", LEAST - 1), None);
        let mut half = Case::new(50);
        half.fast("", 5);
        assert_eq!(half.slow("", 5), None, "half is not more than half");
        assert_eq!(half.record("", "x", true), Some(Opened), "the first fast one went");
        let mut few = Case::new(10);
        few.fast("", 9);
        assert_eq!(few.slow("", 2), Some(1));
    }

    #[test]
    fn a_container_counts_once_however_often_it_is_created() {
        let mut case = Case::new(50);
        for _ in 0..1000 {
            assert_eq!(case.record("", "crashes", true), None);
        }
        case.fast("", 4);
        assert_eq!(case.slow("", 2), None);
        // What counts is its last reply.
        let mut case = Case::new(50);
        assert_eq!(case.slow("", 4), None);
        (0..4).for_each(|n| assert_eq!(case.record("", &n.to_string(), false), None));
        assert_eq!(case.record("", "4", true), None);
    }

    #[test]
    fn a_container_is_known_by_its_names_and_else_by_its_ids() {
        let of = |pod: &PodSandbox, name: &str, id: &str| {
            Source::of(pod, &Container { name: name.into(), id: id.into(), ..Default::default() })
        };
        let pod = PodSandbox { id: "1".into(), name: "p".into(), ..Default::default() };
        let again = PodSandbox { id: "2".into(), ..pod.clone() };
        assert_eq!(of(&pod, "c", "1"), of(&again, "c", "2"));
        assert_ne!(of(&pod, "c", "1"), of(&again, "d", "1"));
        assert_ne!(of(&pod, "", "1"), of(&pod, "", "2"));
    }

    #[test]
    fn one_namespace_cannot_outvote_others() {
        let mut case = Case::new(50);
        case.fast("a", 1);
        assert_eq!(case.slow("tenant", 500), None);
        assert_eq!(case.record("b", "x", true), Some(Opened), "two of three namespaces");
        // Nor if nearly everything is slow in one, and little in the others.
        let mut case = Case::new(50);
        case.fast("a", 10);
        case.fast("b", 1);
        assert_eq!(case.slow("b", 2), None);
        assert_eq!(case.slow("c", 2), None, "four of fifteen containers");
    }

    #[test]
    fn what_is_old_does_not_count() {
        let mut case = Case::new(50);
        case.fast("a", 10);
        assert_eq!(case.slow("b", 4), None);
        case.pass(WINDOW);
        assert_eq!(case.slow("b", 10), Some(4), "neither the fast ones nor the slow ones");
    }

    #[test]
    fn memory_is_bounded() {
        let mut case = Case::new(50);
        for namespace in 0..100 {
            case.fast(&namespace.to_string(), 20);
        }
        assert_eq!(case.breaker.namespaces.len(), NAMESPACES);
        assert!(case.breaker.namespaces.iter().all(|n| n.samples.len() == CONTAINERS));
    }

    #[test]
    fn it_is_tried_once_per_pause_and_closes_with_a_fast_reply() {
        let mut case = Case::new(50);
        assert!(case.admits("", "new"));
        case.slow("", LEAST).unwrap();
        assert!(!case.admits("", "new"));
        assert_eq!(case.breaker.next_try(), Some(case.now + PAUSE));
        case.pass(PAUSE);
        assert!(case.admits("", "new") && !case.admits("", "another"));
        assert_eq!(case.record("", "new", true), None);
        case.pass(PAUSE);
        assert!(case.admits("", "another"));
        assert_eq!(case.record("", "another", false), Some(Closed));
        assert!(case.admits("", "0"));
        assert_eq!(case.breaker.next_try(), None);
        // Slow replies from before do not count any more.
        assert_eq!(case.slow("", 4), Some(3));
    }

    /// Otherwise a container that crashes for ever, or one tenant, would keep it open.
    #[test]
    fn a_container_that_was_slow_and_a_namespace_leave_tries_to_others() {
        let mut case = Case::new(50);
        case.slow("a", LEAST).unwrap();
        case.pass(PAUSE);
        assert!(!case.admits("a", "0"), "it was slow already");
        assert!(case.admits("a", "new") && !case.admits("a", "new2"));
        assert_eq!(case.record("a", "new", true), None);
        for namespace in ["b", "c", "d"] {
            assert!(case.admits(namespace, "x") && !case.admits(namespace, "y"));
        }
        assert!(!case.admits("e", "x"), "{TRIES} per pause");
        case.pass(2 * PAUSE);
        assert!(case.admits("a", "0"), "there is no other");
        assert!(case.admits("b", "x"), "each round begins anew");
    }
}
