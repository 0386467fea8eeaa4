//! What a policy means for a container: its class, and how many CPUs it gets.

use crate::{
    account::{Account, account},
    cgroup::Place,
    hardware::cpuset::{CpuSet, NodeSet},
    pattern::{all_match, entries_match},
    policy::{Cpus, EXCLUSIVE, Policy, Rule, Source, Unsatisfied, UserCpuset},
    subject::Subject,
};

/// Annotation or label with the name of a class.
pub const CLASS_KEY: &str = "nri-topology/class";

/// Annotation or label with a number of exclusive CPUs.
pub const CPUS_KEY: &str = "nri-topology/cpus";

/// What a container gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its name, for messages.
    pub name: String,
    /// Name of its class.
    pub class: String,
    /// Number of exclusive CPUs; 0 without any.
    pub count: usize,
    /// Requested CPU time in thousandths of a CPU; 0 if none is.
    pub milli_cpus: u64,
    /// Memory limit in bytes.
    pub memory_limit: Option<u64>,
    /// CPUs and memory nodes that the container keeps, whatever its class is.
    pub pinned: Option<(CpuSet, NodeSet)>,
    /// What limits the CPUs that it takes.
    pub account: Account,
    /// Whether it may use exclusive CPUs of others while they are idle.
    pub borrows: bool,
}

/// Reason why a container is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It asks for a class that does not exist.
    #[error("topology: {CLASS_KEY} is {0:?}, but the policy has no such class")]
    UnknownClass(String),
    /// It asks for a class that only rules choose.
    #[error("topology: {CLASS_KEY} is {0:?}, a class that only rules of the policy choose")]
    ByRuleOnly(String),
    /// It asks for something that is no number of CPUs.
    #[error("topology: {CPUS_KEY} is {0:?}, not a number of CPUs from 1 on")]
    NoNumber(String),
    /// The class has exclusive CPUs, but nothing says how many.
    #[error(
        "topology: class {0:?} has exclusive CPUs, but the container does not say how many: set \
         {CPUS_KEY} or a CPU limit (--cpus), or the class's count"
    )]
    NoCount(String),
    /// There are not enough CPUs.
    #[error("topology: class {class:?}: {reason}")]
    Unsatisfied {
        /// Its class.
        class: String,
        /// What is missing.
        reason: String,
    },
    /// Its CPUs, which the engine has set, belong to others or do not exist.
    #[error("topology: the CPUs {0} of the container are exclusive CPUs of others, or not online")]
    Pinned(CpuSet),
}

/// Returns what a container gets that is being created.
///
/// # Errors
/// If the container asks for something that the policy does not have.
pub fn request(policy: &Policy, subject: &Subject) -> Result<Request, Refusal> {
    let class = class(policy, subject)?;
    request_in(policy, subject, class)
}

/// Returns what a container gets that exists and has this class, which the policy has. If it no
/// longer says how many exclusive CPUs it wants, it wants as many as before.
pub fn request_again(policy: &Policy, subject: &Subject, class: &str, count: usize) -> Request {
    let same = |count| Request {
        name: subject.name.clone(),
        class: class.to_owned(),
        count,
        milli_cpus: subject.milli_cpus,
        memory_limit: subject.memory_limit,
        pinned: None,
        account: account(policy, subject, is_requested(policy, subject, class)),
        borrows: borrows(policy, subject, class),
    };
    match request_in(policy, subject, class) {
        Ok(request) if request.count == 0 => same(count),
        Ok(request) => request,
        Err(_) => same(count),
    }
}

fn request_in(policy: &Policy, subject: &Subject, name: &str) -> Result<Request, Refusal> {
    let class = &policy.classes[name];
    let pinned = match policy.user_cpuset {
        UserCpuset::Keep if class.cpus != Cpus::Unmanaged => subject.pinned.clone(),
        UserCpuset::Keep | UserCpuset::Override => None,
    };
    let count = match class.cpus {
        Cpus::Exclusive => {
            let by_time = subject.milli_cpus.div_ceil(1000) as usize;
            let asked = asked_count(policy, subject)?;
            let counts = [class.count, asked, Some(by_time).filter(|count| *count > 0)];
            match counts.into_iter().flatten().next() {
                Some(count) => count,
                None if class.unsatisfied == Unsatisfied::Share || pinned.is_some() => 0,
                None => return Err(Refusal::NoCount(name.to_owned())),
            }
        }
        Cpus::Shared | Cpus::Unmanaged => 0,
    };
    Ok(Request {
        name: subject.name.clone(),
        class: name.to_owned(),
        count,
        milli_cpus: subject.milli_cpus,
        memory_limit: subject.memory_limit,
        pinned,
        account: account(policy, subject, is_requested(policy, subject, name)),
        borrows: borrows(policy, subject, name),
    })
}

/// Whether a container of this class may use exclusive CPUs of others: below the cgroup of an
/// engine, where a container stays that has to share CPUs, it would be idle only among its
/// neighbours.
fn borrows(policy: &Policy, subject: &Subject, class: &str) -> bool {
    let class = policy.classes.get(class);
    let class = class.filter(|class| class.idle && class.cpus == Cpus::Shared);
    class.is_some_and(|class| match subject.cgroup {
        Place::Root => true,
        Place::Engine(_) => class.is_at_root(),
        Place::Elsewhere => false,
    })
}

/// Whether no rule of the policy gives this class to a container.
fn is_requested(policy: &Policy, subject: &Subject, class: &str) -> bool {
    rule(policy, subject).is_none_or(|rule| rule.class != class)
}

fn rule<'a>(policy: &'a Policy, subject: &Subject) -> Option<&'a Rule> {
    policy.rules.iter().find(|rule| matches(rule, subject))
}

/// Returns the class of a container: that of the first rule that matches, else the one that it asks
/// for, else the default.
fn class<'a>(policy: &'a Policy, subject: &'a Subject) -> Result<&'a str, Refusal> {
    if let Some(rule) = rule(policy, subject) {
        return Ok(&rule.class);
    }
    if let Some(class) = asked(policy, subject, CLASS_KEY) {
        return match policy.classes.get(class) {
            None => Err(Refusal::UnknownClass(class.to_owned())),
            Some(found) if found.by_rule_only => Err(Refusal::ByRuleOnly(class.to_owned())),
            Some(_) => Ok(class),
        };
    }
    let is_allowed = !policy.classes[EXCLUSIVE].by_rule_only;
    match asked_count(policy, subject)? {
        Some(_) if is_allowed => Ok(EXCLUSIVE),
        Some(_) | None => Ok(&policy.default_class),
    }
}

fn asked<'a>(policy: &Policy, subject: &'a Subject, key: &str) -> Option<&'a str> {
    let from = |source: &Source| match source {
        Source::Annotation => subject.annotations.get(key),
        Source::Label => subject.labels.get(key),
    };
    policy.requests_from.iter().find_map(from).map(String::as_str)
}

fn asked_count(policy: &Policy, subject: &Subject) -> Result<Option<usize>, Refusal> {
    let Some(text) = asked(policy, subject, CPUS_KEY) else { return Ok(None) };
    match text.trim().parse() {
        Ok(count) if count > 0 => Ok(Some(count)),
        _ => Err(Refusal::NoNumber(text.to_owned())),
    }
}

/// Whether everything that a rule names is true of a container.
fn matches(rule: &Rule, subject: &Subject) -> bool {
    let names = [
        (&rule.name, subject.name.as_str()),
        (&rule.image, &subject.image),
        (&rule.pod, &subject.pod),
        (&rule.namespace, &subject.namespace),
    ];
    let milli = subject.milli_cpus;
    let is_whole = milli > 0 && milli.is_multiple_of(1000);
    all_match(names)
        && entries_match(&rule.labels, &subject.labels)
        && entries_match(&rule.annotations, &subject.annotations)
        && rule.whole_cpus.is_none_or(|wanted| wanted == is_whole)
        && rule.min_cpus.is_none_or(|least| milli >= u64::from(least) * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const POLICY: &str = r#"
        requests_from = ["annotation", "label"]
        [class.fast]
        cpus = "exclusive"
        [class.fixed]
        cpus = "exclusive"
        count = 3
        by_rule_only = true
        [class.other]
        cpus = "unmanaged"
        [[rule]]
        class = "fixed"
        name = "db-*"
        labels = { tier = "gold*" }
        [[rule]]
        class = "fast"
        whole_cpus = true
        min_cpus = 4
        [[rule]]
        class = "other"
        image = "*/infra:*"
    "#;

    fn subject(change: impl FnOnce(&mut Subject)) -> Subject {
        let mut subject = Subject { name: "c".to_owned(), ..Subject::default() };
        change(&mut subject);
        subject
    }

    fn entry(key: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn rules_come_before_requests_and_requests_before_the_default() {
        let policy: Policy = POLICY.parse().unwrap();
        let check = |change: fn(&mut Subject), class: &str, count: usize| {
            let got = request(&policy, &subject(change)).unwrap();
            assert_eq!((got.class.as_str(), got.count), (class, count));
        };
        check(|_| (), "shared", 0);
        check(|s| s.annotations = entry(CPUS_KEY, "2"), "exclusive", 2);
        check(|s| s.labels = entry(CPUS_KEY, "2"), "exclusive", 2);
        check(|s| s.milli_cpus = 2000, "shared", 0);
        check(|s| s.milli_cpus = 4000, "fast", 4);
        check(|s| s.milli_cpus = 4500, "shared", 0);
        check(|s| s.image = "a/infra:1".to_owned(), "other", 0);
        let fast = |s: &mut Subject| {
            s.annotations = entry(CLASS_KEY, "fast");
            s.milli_cpus = 2500;
        };
        check(fast, "fast", 3);
        let database = |s: &mut Subject| {
            s.name = "db-1".to_owned();
            s.labels = entry("tier", "gold-2");
            s.annotations = entry(CLASS_KEY, "fast");
        };
        check(database, "fixed", 3);
        let pinned = |s: &mut Subject| {
            s.annotations = entry(CPUS_KEY, "2");
            s.pinned = Some(("1".parse().unwrap(), NodeSet::new()));
        };
        check(pinned, "exclusive", 2);
    }

    #[test]
    fn what_the_policy_does_not_have_is_refused() {
        let policy: Policy = POLICY.parse().unwrap();
        let check = |key: &str, value: &str, refusal: Refusal| {
            let subject = subject(|s| s.annotations = entry(key, value));
            assert_eq!(request(&policy, &subject), Err(refusal));
        };
        check(CLASS_KEY, "none", Refusal::UnknownClass("none".to_owned()));
        check(CLASS_KEY, "fixed", Refusal::ByRuleOnly("fixed".to_owned()));
        check(CLASS_KEY, "fast", Refusal::NoCount("fast".to_owned()));
        check(CPUS_KEY, "0", Refusal::NoNumber("0".to_owned()));
        let policy = Policy::default();
        let labelled = subject(|s| s.labels = entry(CPUS_KEY, "x"));
        assert_eq!(request(&policy, &labelled).unwrap().class, "shared");
    }
}
