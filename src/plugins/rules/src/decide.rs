//! What the rules do with a container. Pure: the device nodes of the host come from the caller.
//!
//! Rules are evaluated in their order, and each sees what earlier ones have done: a limit applies
//! to the value of an earlier rule, and a default only where none has set one. Conditions and
//! expressions see the container as it was requested.

use crate::{
    amounts::{Evaluated, evaluated, most_or_least},
    changes::{Changed, Changes, New},
    expression::{ENTRY, EvaluationError},
    facts::{self, OPTIONAL},
    field::{FieldValue, Group, Key, MEMORY, PERIOD, SWAP},
    findings::missing,
    refusal::Refusal,
    rule::{Action, MountTemplate, Rule, RuleSet, Step},
    stack::Progress,
    unified::incomparable,
};
use cel::Context;
use nri_plugin::proto::{Container, LinuxDevice, Mount, PodSandbox};
use std::{collections::HashMap, time::Instant};

/// What the rules do with a container.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// The changes.
    pub changes: Changes,
    /// What rules that only observe would do: the rule, and its changes or its refusal.
    pub observed: Vec<(String, Result<Vec<Changed>, Refusal>)>,
}

/// Looks up a device node of the host.
pub(crate) type FindDevice<'a> = &'a (dyn Fn(&str) -> Result<LinuxDevice, String> + Sync);

/// Evaluates the rules for the creation of a container, which is [`crate::unified::effective`]. To
/// be called within [`crate::stack::with_stack`].
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn decide(
    rules: &RuleSet,
    pod: &PodSandbox,
    container: &Container,
    device: FindDevice<'_>,
    progress: &Progress,
) -> Result<Decision, Refusal> {
    let context = facts::context(pod, container, rules, progress.deadline);
    let unreadable = facts::unreadable(pod, container, rules);
    let evaluation = Evaluation { container, context: &context, device, progress, unreadable };
    let mut decision = Decision::default();
    for rule in &rules.rules {
        if rule.observe {
            let mut changes = decision.changes.clone();
            let result = evaluation.matches(rule).and_then(|matches| {
                if !matches {
                    return Ok(None);
                }
                evaluation.apply(rule, &mut changes)?;
                Ok(Some(changes.since(&decision.changes, container)))
            });
            if let Some(result) = result.transpose() {
                let result = result.map_err(|refusal| refusal.of(container));
                decision.observed.push((rule.name.clone(), result));
            }
        } else if evaluation.matches(rule)? {
            evaluation.apply(rule, &mut decision.changes)?;
        }
    }
    Ok(decision)
}

/// Evaluates the limits for an update of a container. `updated` has the resources that the update
/// requests, and `is_requested` says of a field whether it has. A limit of two fields holds after
/// an update of either. `before` are the entries of `unified` before: those that say something
/// else now are set, since a runtime may write them again.
///
/// # Errors
/// See [`Refusal`].
pub(crate) fn limit(
    rules: &RuleSet,
    pod: &PodSandbox,
    updated: &Container,
    before: &HashMap<String, String>,
    is_requested: impl Fn(&Key) -> bool,
    progress: &Progress,
) -> Result<Changes, Refusal> {
    let context = facts::context(pod, updated, rules, progress.deadline);
    let device = |_: &str| Err("no update adds a device".to_owned());
    let (container, context, device) = (updated, &context, &device);
    let unreadable = facts::unreadable(pod, container, rules);
    let evaluation = Evaluation { container, context, device, progress, unreadable };
    let mut changes = Changes::default();
    for rule in rules.rules.iter().filter(|rule| !rule.observe) {
        let limits = rule.steps.iter().filter(|step| match &step.action {
            Action::AtLeast(key, _) | Action::AtMost(key, _) => {
                is_requested(key) || key.depends_on().is_some_and(|other| is_requested(&other))
            }
            _ => false,
        });
        let limits: Vec<&Step> = limits.collect();
        if !limits.is_empty() && evaluation.matches(rule)? {
            for step in limits {
                evaluation.step(rule, step, &mut changes)?;
                if let Action::AtLeast(key, _) | Action::AtMost(key, _) = &step.action {
                    changes.restate(rule, key, before, updated);
                }
            }
        }
    }
    Ok(changes)
}

/// The evaluation of rules for one container.
struct Evaluation<'a> {
    container: &'a Container,
    context: &'a Context<'a, 'a>,
    device: FindDevice<'a>,
    progress: &'a Progress,
    unreadable: Option<EvaluationError>,
}

impl Evaluation<'_> {
    fn matches(&self, rule: &Rule) -> Result<bool, Refusal> {
        self.progress.enter(&rule.name);
        if let Some(error) = &self.unreadable {
            return Err(failed(rule, "match", error.clone()));
        }
        match &rule.condition {
            Some(condition) => {
                condition.is_true(self.context).map_err(|error| failed(rule, "match", error))
            }
            None => Ok(true),
        }
    }

    fn apply(&self, rule: &Rule, changes: &mut Changes) -> Result<(), Refusal> {
        rule.steps.iter().try_for_each(|step| self.step(rule, step, changes))?;
        let Some(message) = &rule.refuse else { return Ok(()) };
        let message = message.text(self.context).map_err(|error| failed(rule, "refuse", error))?;
        Err(Refusal::ByRule { rule: rule.name.clone(), message })
    }

    fn step(&self, rule: &Rule, step: &Step, changes: &mut Changes) -> Result<(), Refusal> {
        let container = self.container;
        match &step.action {
            Action::Strip(group, condition) => {
                for (key, entry) in facts::entries(*group, container) {
                    let mut scope = self.context.new_inner_scope();
                    scope.add_variable_as_val(ENTRY, entry);
                    let what = || format!("strip.{}", group.name());
                    if self.progress.deadline <= Instant::now() {
                        return Err(failed(rule, &what(), EvaluationError::TooLong));
                    }
                    if condition.is_true(&scope).map_err(|e| failed(rule, &what(), e))? {
                        changes.put(rule, Key::Entry(*group, key), New::Removed, container)?;
                    }
                }
                Ok(())
            }
            Action::Remove(key) => {
                if changes.value(key, container).is_none() {
                    return Ok(());
                }
                changes.put(rule, key.clone(), New::Removed, container)
            }
            Action::Default(key, amount) => {
                if changes.is_requested(key, container) {
                    return Ok(());
                }
                let amount = self.amount(rule, key, amount, changes)?;
                let value = self.with_period(rule, amount, changes);
                changes.replace(rule, key.clone(), New::Value(value), container);
                Ok(())
            }
            Action::Set(key, amount) => {
                self.check_comparable(rule, key)?;
                let amount = self.amount(rule, key, amount, changes)?;
                let value = self.with_period(rule, amount, changes);
                changes.put(rule, key.clone(), New::Value(value), container)
            }
            Action::AtLeast(key, amount) | Action::AtMost(key, amount) => {
                self.check_comparable(rule, key)?;
                let limit = self.amount(rule, key, amount, changes)?;
                let is_most = matches!(step.action, Action::AtMost(..));
                let bounded = |key: &Key, changes: &Changes| {
                    let value = changes.value(key, container);
                    most_or_least(key, value.as_ref(), &limit.value, is_most)
                };
                // Memory alone is no more than memory and swap together, and runtimes say so.
                if *key == SWAP
                    && is_most
                    && let Some(value) = bounded(&MEMORY, changes)
                {
                    changes.replace(rule, MEMORY, New::Value(value), container);
                }
                if let Some(value) = bounded(key, changes) {
                    let value = self.with_period(rule, Evaluated { value, ..limit }, changes);
                    changes.replace(rule, key.clone(), New::Value(value), container);
                }
                Ok(())
            }
            Action::Mount(template) => {
                let mount = self.mount(template).map_err(|e| failed(rule, "add.mounts", e))?;
                let key = Key::Entry(Group::Mounts, mount.destination.clone());
                changes.put(rule, key, New::Mount(Box::new(mount)), container)
            }
            Action::Device(path) => {
                let paths = path.texts(self.context);
                for path in paths.map_err(|e| failed(rule, "add.devices", e))? {
                    let device = (self.device)(&path).map_err(|error| Refusal::Device {
                        rule: rule.name.clone(),
                        path: path.clone(),
                        error,
                    })?;
                    let key = Key::Entry(Group::Devices, path);
                    changes.put(rule, key, New::Device(Box::new(device)), container)?;
                }
                Ok(())
            }
            Action::Cdi(template) => {
                let names = template.texts(self.context);
                for name in names.map_err(|e| failed(rule, "add.cdi", e))? {
                    let key = Key::Entry(Group::Cdi, name.clone());
                    changes.put(rule, key, New::Value(FieldValue::Text(name)), container)?;
                }
                Ok(())
            }
            Action::Hook(stage, hook) => {
                changes.hooks.push((*stage, (**hook).clone(), rule.name.clone()));
                Ok(())
            }
        }
    }

    fn amount(
        &self,
        rule: &Rule,
        key: &Key,
        amount: &crate::rule::Amount,
        changes: &Changes,
    ) -> Result<Evaluated, Refusal> {
        let period = changes.value(&PERIOD, self.container);
        evaluated(amount, self.context, period.as_ref())
            .map_err(|error| failed(rule, &key.to_string(), error))
    }

    /// Checks that the container does not set what the rule sets in a way that rules cannot see.
    fn check_comparable(&self, rule: &Rule, key: &Key) -> Result<(), Refusal> {
        match incomparable(key, &self.container.linux.resources.unified) {
            Some(file) => Err(Refusal::Incomparable {
                rule: rule.name.clone(),
                field: key.to_string(),
                entry: Key::Entry(Group::Unified, file.to_owned()).to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Returns the value to set, and sets the period that it needs.
    fn with_period(&self, rule: &Rule, amount: Evaluated, changes: &mut Changes) -> FieldValue {
        let Some((quota, period)) = amount.with_period else { return amount.value };
        changes.replace(rule, PERIOD, New::Value(period), self.container);
        quota
    }

    fn mount(&self, template: &MountTemplate) -> Result<Mount, EvaluationError> {
        Ok(Mount {
            source: template.source.text(self.context)?,
            destination: template.destination.text(self.context)?,
            type_: template.kind.clone(),
            options: template.options.clone(),
            ..Default::default()
        })
    }
}

/// Returns the refusal for an expression that fails.
fn failed(rule: &Rule, what: &str, error: EvaluationError) -> Refusal {
    let (name, part) = (rule.name.clone(), what.to_owned());
    let missing = match &error {
        EvaluationError::NoVariable(variable) => {
            let fact = OPTIONAL.into_iter().find(|fact| fact == variable);
            return match fact {
                Some(fact) => Refusal::NoFact { rule: name, fact },
                None => Refusal::Evaluation { rule: name, what: part, error },
            };
        }
        EvaluationError::NoKey(key) => missing(rule, what, key),
        _ => None,
    };
    match missing {
        Some((entry, hint)) => Refusal::Missing { rule: name, part, entry, hint },
        None => Refusal::Evaluation { rule: name, what: part, error },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load;
    use nri_api::opt;
    use nri_plugin::proto::{LinuxContainer, LinuxResources, POSIXRlimit};

    fn open_files((soft, hard): (u64, u64)) -> POSIXRlimit {
        POSIXRlimit { type_: "RLIMIT_NOFILE".into(), soft, hard, ..Default::default() }
    }

    fn container() -> Container {
        let mut resources = LinuxResources::new();
        resources.memory.mut_or_insert_default().limit = opt(Some(1 << 30));
        Container {
            name: "web".into(),
            env: vec!["PATH=/bin".into(), "DEBUG=1".into()],
            // The second one takes effect: runtimes set them in order.
            rlimits: [(1, 1), (100, 5000)].map(open_files).into(),
            mounts: vec![Mount {
                destination: "/host".into(),
                source: "/".into(),
                type_: "bind".into(),
                ..Default::default()
            }],
            linux: Some(LinuxContainer { resources: Some(resources).into(), ..Default::default() })
                .into(),
            ..Container::default()
        }
    }

    fn in_a_minute() -> Progress {
        Progress::until(std::time::Instant::now() + std::time::Duration::from_secs(60))
    }

    fn decided(text: &str, container: &Container) -> Result<Decision, Refusal> {
        let rules = load(text).unwrap_or_else(|error| panic!("{error}"));
        let device = |path: &str| match path {
            "/dev/fuse" => Ok(LinuxDevice { path: path.into(), major: 10, ..Default::default() }),
            _ => Err("No such file or directory".to_owned()),
        };
        crate::stack::with_stack(|| {
            decide(&rules, &PodSandbox::new(), container, &device, &in_a_minute())
        })
        .unwrap()
    }

    /// Returns the changes as `field=value`, and `field-` for a removal.
    fn changes(text: &str) -> Vec<String> {
        changes_of(text, &container())
    }

    fn changes_of(text: &str, container: &Container) -> Vec<String> {
        let decision = decided(text, container).unwrap();
        let changed = decision.changes.since(&Changes::default(), container);
        let shown = |c: Changed| match c.after {
            Some(value) => format!("{}={value}", c.field),
            None => format!("{}-", c.field),
        };
        changed.into_iter().map(shown).collect()
    }

    fn refusal(text: &str) -> String {
        decided(text, &container()).unwrap_err().to_string()
    }

    #[test]
    fn each_rule_sees_what_earlier_ones_have_done() {
        let set =
            "rules: [{name: a, set: {pids.limit: 500}}, {name: b, at_most: {pids.limit: 100}}]";
        assert_eq!(changes(set), ["pids.limit=100"]);
        let default = "rules: [{name: a, default: {pids.limit: 500, memory.limit: 1Mi}}, \
             {name: b, default: {pids.limit: 100}}]";
        assert_eq!(changes(default), ["pids.limit=500"]);
        // Docker writes 0 where nothing was requested.
        let mut none = container();
        none.linux.mut_or_insert_default().oom_score_adj = opt(Some(0));
        let score = decided("rules: [{name: a, default: {oom_score_adj: 5}}]", &none).unwrap();
        assert_eq!(score.changes.since(&Changes::default(), &none)[0].after.as_deref(), Some("5"));
        let same = "rules: [{name: a, match: 'true', set: {pids.limit: 5}}, \
             {name: b, match: 'image == \"\"', set: {pids.limit: 5}}]";
        assert_eq!(changes(same), ["pids.limit=5"]);
    }

    #[test]
    fn limits_apply_to_what_the_container_requests() {
        assert_eq!(changes("rules: [{name: a, at_most: {memory.limit: 2Gi}}]"), [""; 0]);
        let limit = changes("rules: [{name: a, at_most: {memory.limit: 512Mi}}]");
        assert_eq!(limit, ["memory.limit=536870912"]);
        // Without a limit of its own, the container gets the largest one.
        assert_eq!(changes("rules: [{name: a, at_most: {pids.limit: 9}}]"), ["pids.limit=9"]);
        assert_eq!(changes("rules: [{name: a, at_least: {pids.limit: 9}}]"), [""; 0]);
        let raised = changes("rules: [{name: a, at_least: {memory.limit: 2Gi}}]");
        assert_eq!(raised, ["memory.limit=2147483648"]);
        let files = changes("rules: [{name: a, at_most: {rlimits: {nofile: 1000}}}]");
        assert_eq!(files, ["rlimits[RLIMIT_NOFILE]=100:1000"]);
        let cpus = changes("rules: [{name: a, at_most: {cpus: 1.5}}]");
        assert_eq!(cpus, ["cpu.quota=150000"]);
        // Of a container whose quota for half a CPU would be less than what the kernel takes.
        let mut short = container();
        let resources = short.linux.mut_or_insert_default().resources.mut_or_insert_default();
        let cpu = resources.cpu.mut_or_insert_default();
        (cpu.quota, cpu.period) = (opt(Some(1000)), opt(Some(1000)));
        let half = changes_of("rules: [{name: a, at_most: {cpus: 0.5}}]", &short);
        assert_eq!(half, ["cpu.period=2000", "cpu.quota=1000"]);
        let half = changes_of("rules: [{name: a, set: {cpus: 0.5}}]", &short);
        assert_eq!(half, ["cpu.period=2000"]);
        let period = changes("rules: [{name: a, set: {cpus: 0.5, cpu.period: 50ms}}]");
        assert_eq!(period, ["cpu.period=50000", "cpu.quota=25000"]);
        // Memory and swap together are no less than memory.
        let swap = changes("rules: [{name: a, at_most: {memory.swap: 512Mi}}]");
        assert_eq!(swap, ["memory.limit=536870912", "memory.swap=536870912"]);
        // 1024 is the default of the kernel.
        assert_eq!(changes("rules: [{name: a, at_most: {cpu.shares: 2000}}]"), [""; 0]);
        assert_eq!(changes("rules: [{name: a, at_most: {cpu.shares: 512}}]"), ["cpu.shares=512"]);
    }

    #[test]
    fn entries_are_added_removed_and_chosen_by_a_condition() {
        let text = "rules: [{name: a, remove: {env: [DEBUG, NONE]}, \
             strip: {mounts: 'it.source == \"/\"'}, add: {env: {WHO: '${container.name}!'}, \
             devices: [{path: /dev/fuse}], cdi: ['${[\"v/c=1\", \"v/c=2\"]}']}}]";
        assert_eq!(
            changes(text),
            [
                "env[DEBUG]-",
                "env[WHO]=\"web!\"",
                "mounts[/host]-",
                "devices[/dev/fuse]=\"10:0\"",
                "cdi_devices[v/c=1]=\"v/c=1\"",
                "cdi_devices[v/c=2]=\"v/c=2\"",
            ]
        );
        let absent = refusal("rules: [{name: a, add: {devices: [{path: /dev/none}]}}]");
        assert_eq!(absent, "rule \"a\" adds the device \"/dev/none\": No such file or directory");
    }

    #[test]
    fn a_refusal_names_the_rule_and_the_reason() {
        let text =
            "rules: [{name: a, match: 'env[\"DEBUG\"] == \"1\"', refuse: 'no ${env.DEBUG}'}]";
        assert_eq!(refusal(text), "rule \"a\": no 1");
        let no_key = refusal("rules: [{name: a, match: 'labels[\"x\"] == \"1\"', refuse: x}]");
        let expected = "rule \"a\": match reads labels[\"x\"], which this container does not have: \
             write match: '\"x\" in labels && labels[\"x\"] == \"1\"', or match: \
             'labels[?\"x\"].orValue(\"\") == \"1\"'";
        assert_eq!(no_key, expected);
        let no_key = refusal("rules: [{name: a, set: {env: {T: '${labels.team}'}}}]");
        assert!(no_key.contains("env[T] reads labels[\"team\"]") && no_key.contains("write match"));
        let no_fact = refusal("rules: [{name: a, match: privileged, refuse: x}]");
        assert!(no_fact.contains("needs \"privileged\"") && no_fact.contains("[containers]"));
        let no_amount = refusal("rules: [{name: a, set: {memory.limit: '${image}x'}}]");
        assert!(no_amount.contains("memory.limit: \"x\" is no amount"), "{no_amount}");
        let conflict = refusal(
            "rules: [{name: a, match: 'image == \"\"', set: {pids.limit: 5}}, \
             {name: b, match: 'true', set: {pids.limit: 6}}]",
        );
        assert!(conflict.contains("\"b\" sets pids.limit to 6") && conflict.contains("\"a\""));
        let allowed = changes(
            "rules: [{name: a, set: {pids.limit: 5}}, \
             {name: b, override: true, set: {pids.limit: 6}}]",
        );
        assert_eq!(allowed, ["pids.limit=6"]);
    }

    #[test]
    fn a_rule_that_observes_changes_nothing() {
        let text = "rules: [{name: a, observe: true, set: {pids.limit: 5}}, \
             {name: b, observe: true, refuse: never}, {name: c, observe: true, match: 'false'}]";
        let container = container();
        let decision = decided(text, &container).unwrap();
        assert!(decision.changes.is_empty());
        let observed: Vec<_> = decision.observed.iter().map(|(rule, _)| rule.as_str()).collect();
        assert_eq!(observed, ["a", "b"]);
        assert_eq!(decision.observed[0].1.as_ref().unwrap()[0].field, "pids.limit");
        assert!(decision.observed[1].1.is_err());
    }

    #[test]
    fn an_update_is_limited_in_what_it_requests() {
        let rules = load(
            "rules: [{name: a, at_most: {memory.limit: 512Mi, pids.limit: 9}, \
             set: {cpu.shares: 2}}]",
        )
        .unwrap();
        let memory = |key: &Key| key.to_string() == "memory.limit";
        let changes = limit(
            &rules,
            &PodSandbox::new(),
            &container(),
            &HashMap::new(),
            memory,
            &in_a_minute(),
        )
        .unwrap();
        let changed = changes.since(&Changes::default(), &container());
        let fields: Vec<_> = changed.iter().map(|change| change.field.as_str()).collect();
        assert_eq!(fields, ["memory.limit"]);
    }
}
