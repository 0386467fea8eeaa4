//! A container that exists when the plugin starts or gets another policy, and what the policy means
//! for it.

use crate::{
    hardware::cpuset::CpuSet,
    placed::{Assignment, Kind},
    policy::{Cpus, Policy, UserCpuset},
    request::{Request, request, request_again},
    subject::Subject,
};

/// Why a container shares CPUs that had exclusive ones.
const REPLACED: &str = "its CPUs were set while the plugin was not connected, and nothing says how \
    many it wants: start it again";

/// What a container got at its creation, as its annotations say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assigned {
    /// Whose CPUs.
    pub kind: Kind,
    /// In which class.
    pub class: String,
    /// The CPUs that the engine had set for it, if it keeps these.
    pub cpuset: Option<CpuSet>,
    /// How many exclusive CPUs it wanted; `None` if nothing says it.
    pub count: Option<usize>,
    /// Why that was not what it wanted.
    pub reason: Option<String>,
    /// Whether it may use exclusive CPUs of others: it is idle.
    pub borrows: bool,
    /// Whether the CPUs that it has now can be those that the plugin has given it: not if the
    /// runtime says that its engine or another plugin has set them since.
    pub has_own: bool,
    /// Whether the plugin itself is known to have set the annotations. Otherwise whoever created
    /// the container, or another plugin, may have.
    pub is_proven: bool,
}

/// A container as the runtime describes it, whatever the policy is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What policies see of it.
    pub subject: Subject,
    /// What it got at its creation; `None` if the plugin did not see it.
    pub assigned: Option<Assigned>,
    /// Time of its creation, in nanoseconds since the epoch; 0 if unknown.
    pub created_at: i64,
}

impl Known {
    /// Describes the container for a policy.
    pub fn existing(&self, policy: &Policy, has: Assignment) -> Existing {
        let found = Existing::new(policy, &self.subject, self.assigned.as_ref(), has);
        Existing { created_at: self.created_at, ..found }
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
    /// Whether that is known. Otherwise it counts only as far as the container has what the policy
    /// would give it.
    pub is_proven: bool,
    /// How many exclusive CPUs it wanted at its creation.
    pub first_count: usize,
    /// Whether what it has can be what the plugin has given it.
    pub has_own: bool,
    /// Time of its creation; 0 if unknown.
    pub created_at: i64,
    /// Why that is not what it wants.
    pub reason: Option<String>,
    /// What it has.
    pub has: Assignment,
}

impl Existing {
    /// Describes a container: what the policy means for it, and what it got at its creation.
    pub fn new(
        policy: &Policy,
        subject: &Subject,
        assigned: Option<&Assigned>,
        has: Assignment,
    ) -> Self {
        let unseen = |request: Request, reason| Self {
            first_count: request.count,
            // Its class may be idle, but it need not be.
            request: Request { borrows: false, ..request },
            kind: None,
            is_proven: false,
            has_own: true,
            created_at: 0,
            reason,
            has: has.clone(),
        };
        let is_pinned = assigned.is_some_and(|a| a.kind == Kind::Pinned) && !has.cpus.is_empty();
        if let Some(assigned) = assigned.filter(|a| a.is_proven && policy.has_class(&a.class)) {
            // What an engine has set since says nothing of what the plugin has given.
            let own = assigned.has_own.then(|| has.cpus.len());
            let count = match (assigned.kind, assigned.count) {
                (Kind::Exclusive, Some(first)) => own.map_or(first, |own| own.min(first)),
                (Kind::Exclusive, None) => own.unwrap_or_default(),
                _ => 0,
            };
            let request = request_again(policy, subject, &assigned.class, count);
            // Without a record, those that the container has.
            let kept = assigned.cpuset.as_ref().unwrap_or(&has.cpus);
            let pinned = is_pinned.then(|| (kept.clone(), has.nodes.clone()));
            let borrows = request.borrows && assigned.borrows;
            let request = Request { pinned, ..request };
            let is_replaced = assigned.kind == Kind::Exclusive && request.count == 0;
            let reason = is_replaced.then(|| REPLACED.to_owned());
            return Self {
                kind: Some(assigned.kind),
                is_proven: true,
                first_count: assigned.count.unwrap_or(request.count),
                has_own: assigned.has_own,
                request: Request { borrows, ..request.clone() },
                ..unseen(request, reason.or_else(|| assigned.reason.clone()))
            };
        }
        // A container that keeps the engine's CPUs need not say how many it wants.
        let unproven = assigned.filter(|a| !a.is_proven);
        let pinned = unproven.filter(|_| is_pinned).map(|_| (has.cpus.clone(), has.nodes.clone()));
        match (request(policy, &Subject { pinned, ..subject.clone() }), unproven) {
            (Ok(request), Some(assigned)) => {
                let class = &policy.classes[&request.class];
                let is_possible = match assigned.kind {
                    Kind::Exclusive => class.cpus == Cpus::Exclusive && request.count > 0,
                    Kind::Pinned => policy.user_cpuset == UserCpuset::Keep,
                    Kind::Shared | Kind::Unmanaged => true,
                };
                let kind = is_possible.then_some(assigned.kind);
                Self { kind, ..unseen(request, None) }
            }
            (Ok(request), None) => unseen(request, None),
            (Err(refusal), _) => {
                let request = request_again(policy, subject, &policy.default_class, 0);
                unseen(request, Some(refusal.to_string()))
            }
        }
    }
}
