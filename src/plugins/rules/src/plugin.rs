//! The plugin: events of NRI to the rules, and their decisions to replies and log lines.

use crate::{
    changes::Changed,
    decide::{Decision, decide, limit},
    facts,
    field::{Key, resource_value},
    findings::{Given, findings},
    load::load,
    mistake::{LoadError, Mistake},
    refusal::Refusal,
    rule::{Place, RuleSet},
    stack::{Evaluations, Progress},
    unified::{effective, fields_of, incomparable, texts},
};
use nri_api::{RESOURCE_FIELDS, opt};
use nri_plugin::{
    Configured, Failure,
    prelude::*,
    proto::{FailurePolicy, LinuxDevice},
};
use nri_spec::{LimitChange, MemoryLimits};
use rustix::fs::{FileType, Mode, major, minor, stat};
use std::{sync::Arc, time::Duration};

/// Name of the runtime whose annotations are facts. Elsewhere, whoever creates a container can set
/// them.
const RUNTIME: &str = "nri-container-runtime";

/// Time limit of a request where the runtime does not say one.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// What is logged of a file that begins to refuse containers while the plugin is connected.
const LATER: &str = "the rules refuse containers now, and did not when the plugin connected: until \
     it connects again, containers are created without them if the plugin fails";

/// Error of a plugin that the runtime sends nothing, as where it has no file for the plugin.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}: write {plugin}.conf in the runtime's directory of configurations, such as /etc/nri/conf.d",
    source.error
)]
struct NoRules {
    plugin: String,
    source: LoadError,
}

/// A plugin that applies rules.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Configured<RuleSet>,
    evaluations: Evaluations,
}

impl Rules {
    /// Replaces the rules, unless the file has a mistake. What would refuse containers is a
    /// warning: a file that the plugin took before stays one that it takes.
    fn take(&self, session: &Session, rules: RuleSet) -> Reply<()> {
        let given = match session.runtime() {
            Some(runtime) if runtime.name != RUNTIME => Given::Elsewhere(runtime.name.clone()),
            _ => Given::of_launch(),
        };
        for finding in findings(&rules, &given)? {
            let Place { line, column } = finding.place;
            tracing::warn!(line, column, "{}", finding.error);
        }
        tracing::info!(rules = rules.rules.len(), "rules loaded");
        self.rules.set(rules);
        Ok(())
    }

    /// Evaluates rules in less than the time that the runtime waits: after that, it would create
    /// the container without them. Expressions fail after a quarter of this time, and what they
    /// cannot interrupt is no longer waited for after a half.
    fn evaluate<T: Send + 'static>(
        &self,
        session: &Session,
        function: impl FnOnce(&Progress) -> T + Send + 'static,
    ) -> std::io::Result<T> {
        let timeout = session.runtime().map(|runtime| runtime.request_timeout);
        let timeout = timeout.filter(|timeout| !timeout.is_zero()).unwrap_or(REQUEST_TIMEOUT);
        self.evaluations.run(timeout / 2, function)
    }
}

impl Plugin for Rules {
    async fn configure(&self, session: &Session, text: &str) -> Reply<()> {
        let rules = load(text).map_err(|source| match source.error {
            Mistake::Empty => {
                Failure::from(NoRules { plugin: session.plugin().name.to_string(), source })
            }
            _ => source.into(),
        })?;
        self.take(session, rules)
    }

    async fn reconfigure(&self, session: &Session, text: &str) -> Reply<()> {
        let rules = load(text)?;
        if session.runtime().is_some() && rules.refuses() && !self.rules.get().refuses() {
            tracing::warn!("{LATER}");
        }
        self.take(session, rules)
    }

    /// While rules refuse containers, none is created because they are not evaluated.
    fn failure_policy(&self) -> Option<FailurePolicy> {
        let fail = FailurePolicy { fail_request: true, ..FailurePolicy::default() };
        self.rules.get().refuses().then_some(fail)
    }

    async fn create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> Reply<Creation> {
        let rules = self.rules.get();
        let container = effective(with_own_facts(session, container));
        let subject = Arc::new((pod, container));
        let shared = subject.clone();
        let result = self.evaluate(session, move |progress| {
            decide(&rules, &shared.0, &shared.1, &device_of_host, progress)
        });
        let (pod, container) = &*subject;
        let decision = result?.map_err(|refusal| refusal.of(container));
        let decision = decision.inspect_err(|refusal| log_refusal(refusal, pod, container))?;
        log(&decision, pod, container);
        Ok(decision.changes.adjustment().into())
    }

    async fn update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> Reply<Changes> {
        let rules = self.rules.get();
        let before = container.linux.resources.unified.clone();
        let updated = with_resources(with_own_facts(session, container), &resources);
        let subject = Arc::new((pod, updated));
        let shared = subject.clone();
        let result = self.evaluate(session, move |progress| {
            let requested = |key: &Key| is_requested(key, &resources);
            limit(&rules, &shared.0, &shared.1, &before, requested, progress)
        });
        let (pod, updated) = &*subject;
        let changes = result?.map_err(|refusal| refusal.of(updated));
        let changes = changes.inspect_err(|refusal| log_refusal(refusal, pod, updated))?;
        if changes.is_empty() {
            return Ok(Changes::default());
        }
        for changed in changes.since(&crate::changes::Changes::default(), updated) {
            let Changed { rule, field, after, .. } = changed;
            let (container, pod) = (&updated.name, &pod.name);
            tracing::info!(container, pod, rule, field, after, "update limited");
        }
        let mut update = Update::new(&updated.id);
        changes.update(&mut update);
        Ok(update.into())
    }
}

/// Removes the annotations that would be facts, unless the runtime is the one that sets them.
fn with_own_facts(session: &Session, mut container: Container) -> Container {
    if session.runtime().is_none_or(|runtime| runtime.name != RUNTIME) {
        container.annotations.retain(|key, _| !key.starts_with(facts::PREFIX));
    }
    container
}

/// Returns the container as it would be after an update, with the limit of swap that follows. The
/// fields have the values that the kernel gets, and the entries of `unified` say the same.
fn with_resources(container: Container, resources: &LinuxResources) -> Container {
    let mut container = effective(container);
    let linux = container.linux.mut_or_insert_default();
    let updated = linux.resources.mut_or_insert_default();
    // They are in the fields now, which the update may set.
    let earlier = std::mem::take(&mut updated.unified);
    let change = LimitChange {
        before: MemoryLimits::of_message(updated),
        by_engine: MemoryLimits::of_message(resources),
        is_adjusted: true,
        ..LimitChange::default()
    };
    for field in RESOURCE_FIELDS {
        field.copy(resources, updated);
    }
    if let Some(swap) = change.derived_swap(|| true) {
        updated.memory.mut_or_insert_default().swap = opt(Some(swap));
    }
    for limit in &resources.hugepage_limits {
        updated.hugepage_limits.retain(|other| other.page_size != limit.page_size);
        updated.hugepage_limits.push(limit.clone());
    }
    updated.unified.clone_from(&resources.unified);
    let mut container = effective(container);
    let updated = container.linux.mut_or_insert_default().resources.mut_or_insert_default();
    let texts = texts(updated);
    for (file, text) in earlier {
        let text = texts.get(&file).cloned().unwrap_or(text);
        updated.unified.entry(file).or_insert(text);
    }
    container
}

/// Whether an update requests a field, in whichever way.
fn is_requested(key: &Key, resources: &LinuxResources) -> bool {
    resource_value(key, resources).is_some()
        || resources.unified.keys().any(|file| fields_of(file).any(|own| own == *key))
        || incomparable(key, &resources.unified).is_some()
}

/// Looks up a device node of the host.
fn device_of_host(path: &str) -> Result<LinuxDevice, String> {
    let found = stat(path).map_err(|error| std::io::Error::from(error).to_string())?;
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::CharacterDevice => "c",
        FileType::BlockDevice => "b",
        _ => return Err("it is no device".to_owned()),
    };
    Ok(LinuxDevice {
        path: path.to_owned(),
        type_: kind.to_owned(),
        major: major(found.st_rdev).into(),
        minor: minor(found.st_rdev).into(),
        file_mode: opt(Some(Mode::from_raw_mode(found.st_mode).bits())),
        uid: opt(Some(found.st_uid)),
        gid: opt(Some(found.st_gid)),
        ..Default::default()
    })
}

/// Length of the fields in a line of the log, in bytes: `nrid` cuts lines of more than 2048 bytes.
const MAX_FIELDS: usize = 1500;

/// Logs what the rules do, and what rules that only observe would do.
fn log(decision: &Decision, pod: &PodSandbox, container: &Container) {
    let requested = container;
    let (container, pod) = (&container.name, &pod.name);
    let none = crate::changes::Changes::default();
    let with_rule = |c: Changed| format!("{} by {}", c.field, c.rule);
    for fields in lines(decision.changes.since(&none, requested).into_iter().map(with_rule)) {
        tracing::info!(container, pod, fields, "fields set");
    }
    for (rule, result) in &decision.observed {
        match result {
            Ok(changes) if changes.is_empty() => {
                tracing::info!(container, pod, rule, "rule would change nothing");
            }
            Ok(changes) => {
                for fields in lines(changes.iter().map(|change| change.field.clone())) {
                    tracing::info!(container, pod, rule, fields, "rule would set fields");
                }
            }
            Err(refusal) => {
                let reason = refusal.to_string();
                tracing::warn!(container, pod, rule, reason, "rule would refuse container");
            }
        }
    }
}

/// Joins fields to lines of at most [`MAX_FIELDS`] bytes; a longer field has a line of its own.
fn lines(fields: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for field in fields {
        match lines.last_mut().filter(|line| line.len() + 2 + field.len() <= MAX_FIELDS) {
            Some(line) => *line = format!("{line}, {field}"),
            None => lines.push(field),
        }
    }
    lines
}

fn log_refusal(refusal: &Refusal, pod: &PodSandbox, container: &Container) {
    let reason = refusal.to_string();
    tracing::warn!(container = container.name, pod = pod.name, reason, "container refused");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::{FieldValue, resource};
    use nri_plugin::testing::{InProcessRuntime, container, env, pod};

    #[test]
    fn a_container_is_adjusted_refused_and_limited_in_its_updates() {
        let text = "rules: [{name: a, add: {env: {WHO: '${pod.name}'}}, at_most: {pids.limit: 9}}, \
             {name: b, match: 'container.name == \"bad\"', refuse: not here}]";
        let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
        let pod = pod("shop");
        let web = container(&pod, "web");
        let reply = runtime.create_container(&pod, &web).unwrap();
        assert_eq!(env(&reply, "WHO"), Some("shop"));
        assert_eq!(reply.adjust.linux.resources.pids.limit, 9);
        let refused = runtime.create_container(&pod, &container(&pod, "bad")).unwrap_err();
        assert!(refused.to_string().contains("rule \"b\": not here"), "{refused}");
        let mut resources = LinuxResources::new();
        resources.pids.mut_or_insert_default().limit = 100;
        let reply = runtime.update_container(&pod, &web, &resources).unwrap();
        assert_eq!(reply.update[0].linux.resources.pids.limit, 9);
        resources.pids.mut_or_insert_default().limit = 5;
        let reply = runtime.update_container(&pod, &web, &resources).unwrap();
        assert!(reply.update.is_empty());
    }

    /// A limit of CPUs is one of the quota divided by the period, and one of memory and swap
    /// together is one of memory, too: an update of either field can exceed it.
    #[test]
    fn a_limit_of_two_fields_holds_after_an_update_of_either() {
        let text = "rules: [{name: a, at_most: {cpus: 1, memory.swap: 1Gi}}]";
        let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
        let pod = pod("shop");
        let mut web = container(&pod, "web");
        let linux = web.linux.mut_or_insert_default();
        let resources = linux.resources.mut_or_insert_default();
        let cpu = resources.cpu.mut_or_insert_default();
        (cpu.quota, cpu.period) = (opt(Some(100_000)), opt(Some(100_000)));
        let memory = resources.memory.mut_or_insert_default();
        (memory.limit, memory.swap) = (opt(Some(1 << 30)), opt(Some(1 << 30)));
        let limited = |update: &dyn Fn(&mut LinuxResources)| {
            let mut resources = LinuxResources::new();
            update(&mut resources);
            let reply = runtime.update_container(&pod, &web, &resources).unwrap();
            let updated = reply.update.first().map(|update| update.linux.resources.clone());
            let updated = updated.unwrap_or_default();
            let number = |key| match resource(key, &updated) {
                Some(FieldValue::Number(number)) => number,
                _ => 0,
            };
            ["cpu.quota", "cpu.period", "memory.limit", "memory.swap"].map(number)
        };
        let period = |n| {
            move |r: &mut LinuxResources| {
                r.cpu.mut_or_insert_default().period = opt(Some(n));
            }
        };
        assert_eq!(limited(&period(1000)), [1000, 0, 0, 0]);
        assert_eq!(limited(&period(50_000)), [50_000, 0, 0, 0]);
        assert_eq!(limited(&period(200_000)), [0; 4]);
        let quota = |n| {
            move |r: &mut LinuxResources| {
                r.cpu.mut_or_insert_default().quota = opt(Some(n));
            }
        };
        assert_eq!(limited(&quota(200_000)), [100_000, 0, 0, 0]);
        let memory = |n| {
            move |r: &mut LinuxResources| {
                r.memory.mut_or_insert_default().limit = opt(Some(n));
            }
        };
        // What the container may swap follows from its memory here.
        assert_eq!(limited(&memory(2 << 30)), [0, 0, 1 << 30, 1 << 30]);
        assert_eq!(limited(&memory(-1)), [0, 0, 1 << 30, 1 << 30]);
        assert_eq!(limited(&memory(1 << 20)), [0; 4]);
    }

    /// With `memory.max` in `unified` in place of `memory.limit`, a container had any limit.
    #[test]
    fn a_limit_holds_for_unified_at_a_creation_and_in_an_update() {
        let text = "rules: [{name: a, at_most: {memory.limit: 1Gi, pids.limit: 9}}]";
        let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
        let pod = pod("shop");
        let entry = |file: &str, text: &str| {
            let unified = [(file.to_owned(), text.to_owned())].into();
            LinuxResources { unified, ..Default::default() }
        };
        let mut web = container(&pod, "web");
        let linux = web.linux.mut_or_insert_default();
        linux.resources = Some(entry("memory.max", "5368709120")).into();
        let reply = runtime.create_container(&pod, &web).unwrap();
        let resources = &reply.adjust.linux.resources;
        assert_eq!(resources.memory.limit.value, 1 << 30);
        assert_eq!(resources.unified["memory.max"], "1073741824");

        let updated = |resources: &LinuxResources| {
            let reply = runtime.update_container(&pod, &web, resources).unwrap();
            let update = reply.update.first().map(|update| update.linux.resources.clone());
            update.unwrap_or_default().unwrap_or_default().unified
        };
        assert_eq!(updated(&entry("memory.max", "max"))["memory.max"], "1073741824");
        assert_eq!(updated(&entry("pids.max", "10"))["pids.max"], "9");
        assert!(updated(&entry("pids.max", "8")).is_empty());
        assert!(updated(&entry("memory.high", "max")).is_empty());
        // What `unified` says of the container is what the update says.
        let mut limit = LinuxResources::new();
        limit.memory.mut_or_insert_default().limit = opt(Some(5 << 20));
        assert_eq!(updated(&limit)["memory.max"], "5242880");
        limit.memory.mut_or_insert_default().limit = opt(Some(5 << 30));
        assert_eq!(updated(&limit)["memory.max"], "1073741824");
    }

    #[test]
    fn annotations_of_other_runtimes_are_no_facts() {
        let text = "rules: [{name: a, match: privileged, refuse: not here}]";
        let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
        let pod = pod("shop");
        let mut web = container(&pod, "web");
        web.annotations.insert("facts.nri-container-runtime/privileged".into(), "false".into());
        let refused = runtime.create_container(&pod, &web).unwrap_err().to_string();
        assert!(refused.contains("needs \"privileged\""), "{refused}");
    }

    #[test]
    fn a_container_with_more_entries_than_the_rules_have_time_for_is_refused() {
        let text = "rules: [{name: a, add: {env: {A: b}}, \
             match: 'env.exists(a, env.exists(b, env.exists(c, a + b == c)))'}]";
        let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
        let pod = pod("shop");
        let mut web = container(&pod, "web");
        web.env = (0..2000).map(|n| format!("V{n}=")).collect();
        let refused = runtime.create_container(&pod, &web).unwrap_err().to_string();
        assert!(refused.contains("too long") || refused.contains("took longer"), "{refused}");
        web.env.truncate(2);
        assert!(runtime.create_container(&pod, &web).is_ok());
    }

    /// Otherwise a container could be created because the plugin fails.
    #[test]
    fn a_file_that_refuses_containers_asks_for_failed_requests() {
        for (text, expected) in [
            ("rules: [{name: a, refuse: never}]", true),
            ("rules: [{name: a, observe: true, refuse: never}]", false),
            ("rules: [{name: a, set: {pids.limit: 5}}]", false),
        ] {
            let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
            let policy = runtime.failure_policy();
            assert_eq!(policy.is_some_and(|policy| policy.fail_request), expected, "{text}");
        }
    }

    #[test]
    fn a_broken_configuration_is_refused_with_its_place() {
        let refused = InProcessRuntime::start(Rules::default(), "rules:\n  - nam: a\n").err();
        assert!(refused.unwrap().to_string().contains("line 2, column 5"));
    }

    #[test]
    fn a_file_that_is_read_again_replaces_the_rules_unless_it_has_a_mistake() {
        let text = "rules: [{name: a, set: {env: {A: a}}}]";
        let runtime = InProcessRuntime::start(Rules::default(), text).unwrap();
        let pod = pod("shop");
        let web = container(&pod, "web");
        let of_a = || {
            let reply = runtime.create_container(&pod, &web).unwrap();
            env(&reply, "A").map(str::to_owned)
        };
        let refused = runtime.reconfigure("rules:\n  - nam: a\n").unwrap_err().to_string();
        assert!(refused.starts_with("line 2, column 5"), "{refused}");
        assert_eq!(of_a().as_deref(), Some("a"));
        runtime.reconfigure("rules: [{name: a, set: {env: {A: b}}}]").unwrap();
        assert_eq!(of_a().as_deref(), Some("b"));
        let refused = runtime.reconfigure("").unwrap_err().to_string();
        assert!(refused.contains("or it is empty"), "{refused}");
        assert_eq!(of_a().as_deref(), Some("b"));
        runtime.reconfigure("rules: []").unwrap();
        assert_eq!(of_a(), None);
    }

    #[test]
    fn fields_are_joined_to_lines_that_are_not_cut() {
        assert_eq!(lines(["a", "b"].map(str::to_owned)), ["a, b"]);
        let long = "x".repeat(MAX_FIELDS);
        let fields = ["a", &long, "b", &long[4..], "c"].map(str::to_owned);
        let last = format!("b, {}", &long[4..]);
        assert_eq!(lines(fields), ["a", &long, &last, "c"]);
        assert_eq!(lines([]), [""; 0]);
    }

    #[test]
    fn devices_are_those_of_the_host() {
        let null = device_of_host("/dev/null").unwrap();
        assert_eq!((null.type_.as_str(), null.major, null.minor), ("c", 1, 3));
        assert_eq!(device_of_host("/dev").unwrap_err(), "it is no device");
        assert!(device_of_host("/dev/none").is_err());
    }
}
