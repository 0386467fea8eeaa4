//! Under which quota the CPUs that a container takes count.

use crate::{
    pattern::Glob,
    policy::{Cpus, Policy, Rule},
    quota::Quota,
    subject::Subject,
};
use std::collections::BTreeMap;

/// What limits the CPUs that a container takes from all others.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Account {
    /// Nothing: a rule of the policy gives them, and no quota is that of the container.
    Unlimited,
    /// `requests_max`: it asks for them, and no quota is that of the container.
    Requests,
    /// A quota of the policy.
    Quota {
        /// Its index.
        index: usize,
        /// Which of the quotas of `per` or `per_label`; empty without these.
        group: String,
    },
    /// A quota that names the engine, which the runtime does not say: it may take none, since a
    /// quota would not hold otherwise.
    NoEngine {
        /// Index of the quota.
        index: usize,
    },
}

/// Returns the account of a container: that of the first quota that is its own.
pub(crate) fn account(policy: &Policy, subject: &Subject, is_requested: bool) -> Account {
    let quotas = policy.quotas.iter().enumerate();
    for (index, quota) in quotas.filter(|(_, quota)| quota.matches_but_engine(subject)) {
        let is_of_engine =
            |engine: &String| quota.engine.as_ref().is_none_or(|g| g.matches(engine));
        match &subject.engine {
            None if quota.needs_engine() => return Account::NoEngine { index },
            Some(engine) if !is_of_engine(engine) => {}
            _ => return Account::Quota { index, group: quota.group(subject) },
        }
    }
    if is_requested { Account::Requests } else { Account::Unlimited }
}

/// Returns the name of what limits an account, for messages.
pub(crate) fn limit_name(policy: &Policy, account: &Account) -> String {
    let name = |index: usize| {
        let quota: &Quota = &policy.quotas[index];
        format!("quota {} ({quota})", index + 1)
    };
    match account {
        Account::Unlimited => "none".to_owned(),
        Account::Requests => "requests_max".to_owned(),
        Account::Quota { index, group } if group.is_empty() => name(*index),
        Account::Quota { index, group } => format!("{} of {group:?}", name(*index)),
        Account::NoEngine { index } => name(*index),
    }
}

/// Returns what an administrator should know of a policy: what it gives to whoever asks.
pub fn warnings(policy: &Policy) -> Vec<String> {
    let rules = policy.rules.iter().enumerate();
    let open = rules.filter(|(_, rule)| {
        let gives = policy.classes[&rule.class].cpus == Cpus::Exclusive;
        gives && is_open(rule) && !policy.quotas.iter().any(|q| is_covered(rule, q))
    });
    let rules = open.map(|(index, rule)| {
        format!(
            "rule {} gives exclusive CPUs (class {:?}) to whoever chooses such names, labels or \
             limits, and no quota limits them: add a [[quota]]",
            index + 1,
            rule.class
        )
    });
    let classes = policy.classes.iter().filter(|(_, class)| class.cpus == Cpus::Unmanaged);
    let classes = classes.filter_map(|(name, class)| {
        let by_rule = || policy.rules.iter().position(|rule| rule.class == *name && is_open(rule));
        let (how, what) = if policy.default_class == *name {
            ("each container that asks for nothing".to_owned(), "choose another default_class")
        } else if !class.by_rule_only {
            ("whoever asks for it".to_owned(), "set by_rule_only")
        } else {
            let who = format!("whoever chooses what rule {} matches", by_rule()? + 1);
            (who, "give the rule a namespace that tenants do not choose")
        };
        Some(format!(
            "class {name:?} is unmanaged: {how} runs on the exclusive CPUs of others, too: {what}"
        ))
    });
    rules.chain(classes).collect()
}

/// Whether a rule matches containers outside of Kubernetes: their namespace is not their own, and
/// they choose names, labels and limits.
fn is_open(rule: &Rule) -> bool {
    rule.namespace.as_ref().is_none_or(|namespace| namespace.matches("default"))
}

/// Whether a quota is surely that of all containers that a rule matches, or an earlier one is.
fn is_covered(rule: &Rule, quota: &Quota) -> bool {
    let names = [
        (&quota.image, &rule.image),
        (&quota.pod, &rule.pod),
        (&quota.namespace, &rule.namespace),
        (&quota.engine, &None),
    ];
    let is_in = |of_quota: &BTreeMap<String, Glob>, of_rule: &BTreeMap<String, Glob>| {
        of_quota.iter().all(|(key, glob)| of_rule.get(key) == Some(glob))
    };
    names.iter().all(|(of_quota, of_rule)| of_quota.is_none() || of_quota == of_rule)
        && is_in(&quota.labels, &rule.labels)
        && is_in(&quota.annotations, &rule.annotations)
}
