//! A container that exists when the plugin starts or gets another policy, and what the policy means
//! for it.

use crate::{
    placed::{Assignment, Kind},
    policy::Policy,
    request::{Request, Subject, request, request_again},
};

/// A container as the runtime describes it, whatever the policy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What policies see of it.
    pub subject: Subject,
    /// Whose CPUs it got at its creation, and in which class; `None` if the plugin did not see it.
    pub assigned: Option<(Kind, String)>,
    /// Why that was not what it wanted.
    pub reason: Option<String>,
}

impl Known {
    /// Describes the container for a policy.
    pub fn existing(&self, policy: &Policy, has: Assignment) -> Existing {
        let assigned = self.assigned.as_ref().map(|(kind, class)| (*kind, class.as_str()));
        let found = Existing::new(policy, &self.subject, assigned, has);
        Existing { reason: self.reason.clone().or(found.reason), ..found }
    }
}

/// A container that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// What it gets.
    pub request: Request,
    /// Whose CPUs it got at its creation; `None` if the plugin did not see it. Such a container
    /// shares CPUs: that it has some for itself could not be told after the next start.
    pub kind: Option<Kind>,
    /// Why that is not what it wants.
    pub reason: Option<String>,
    /// What it has.
    pub has: Assignment,
}

impl Existing {
    /// Describes a container: what the policy means for it, and what it got at its creation, which
    /// is whose CPUs in which class.
    pub fn new(
        policy: &Policy,
        subject: &Subject,
        assigned: Option<(Kind, &str)>,
        has: Assignment,
    ) -> Self {
        match assigned {
            Some((kind, class)) if policy.classes.contains_key(class) => {
                let count = if kind == Kind::Exclusive { has.cpus.len() } else { 0 };
                let request = request_again(policy, subject, class, count);
                Self { request, kind: Some(kind), reason: None, has }
            }
            Some(_) | None => match request(policy, subject) {
                Ok(request) => Self { request, kind: None, reason: None, has },
                Err(refusal) => {
                    let request = request_again(policy, subject, &policy.default_class, 0);
                    Self { request, kind: None, reason: Some(refusal.to_string()), has }
                }
            },
        }
    }
}
