//! What of a plugin's requests has no effect, because the plugin's policy observes it, or because a
//! container is outside the scope of the policy.
//!
//! The change of a container that the plugin is not for is dropped: the container is complete
//! without it, and a plugin must not be able to refuse containers that it is not for. A request in
//! the reply about a container of the scope may depend on an update elsewhere, such as CPUs that
//! another container gives up. So an update that is outside the scope counts as one of an unknown
//! container: it fails, and with it the request, unless it has `ignore_failure`.

use nri_api::PluginId;
use nri_api::proto::{
    Container, ContainerEviction, ContainerUpdate, CreateContainerResponse, Event, PodSandbox,
};
use nri_merge::CreateMerge;
use std::collections::HashMap;

use crate::core::Core;
use crate::error::AdaptError;
use crate::events::reply_log::{log_withheld, log_withheld_adjustment};
use crate::manager::{ContainerManager, Snapshot};
use crate::order::context::{RequestContext, WithheldReply};
use crate::plugin::calls::EventRequest;
use crate::plugin::handle::Plugin;
use crate::policy::permissions::PermissionDenied;
use crate::policy::plugin_policy::{PluginPolicy, WithheldBy};
use crate::policy::scope::{Origin, Subject};
use crate::policy::withheld::Withheld;

/// Takes updates and evictions without effect out of a request, and reports them. `own` is the
/// container of an event that may be updated in the reply, and why the plugin's requests for it
/// have no effect, if they have none.
pub(crate) fn withhold_updates(
    manager: &dyn ContainerManager,
    (plugin, policy): (&PluginId, &PluginPolicy),
    own: Option<(&str, Option<WithheldBy>)>,
    updates: &mut Vec<ContainerUpdate>,
    evictions: &mut Vec<ContainerEviction>,
) -> Withheld {
    if !policy.observe && policy.scope.is_none() {
        return Withheld::default();
    }
    // A plugin may request thousands of updates of one container.
    let mut targets = HashMap::<String, bool>::new();
    let mut is_withheld = |id: &str| match own {
        Some((own, withheld)) if own == id => withheld.is_some(),
        _ if policy.observe => true,
        _ => !*targets.entry(id.to_owned()).or_insert_with(|| is_target(manager, policy, id)),
    };
    let withheld = Withheld {
        updates: updates.extract_if(.., |update| is_withheld(&update.container_id)).collect(),
        evictions: evictions.extract_if(.., |evict| is_withheld(&evict.container_id)).collect(),
    };
    if !withheld.is_empty() {
        let by = if policy.observe { WithheldBy::Observe } else { WithheldBy::Scope };
        log_withheld(plugin, by, &withheld);
        manager.updates_withheld(plugin, by, &withheld.updates, &withheld.evictions);
    }
    withheld
}

/// Whether a container that exists is in the scope of a policy.
fn is_target(manager: &dyn ContainerManager, policy: &PluginPolicy, id: &str) -> bool {
    manager.find(id).is_some_and(|(pod, container)| {
        let subject = Subject::new(&pod, Some(&container), manager.origin(id));
        policy.has_in_scope(Some(&subject))
    })
}

/// Takes out of the reply to a creation what has no effect, and logs it. `withheld` is why the
/// plugin does not change the container, if it does not; then `context` gets what the reply would
/// have changed.
///
/// # Errors
/// The reply depends on an update without effect, although the plugin may change the container.
pub(crate) fn withhold_creation(
    core: &Core,
    plugin: &Plugin,
    (policy, withheld): (&PluginPolicy, Option<WithheldBy>),
    (merge, context): (&CreateMerge, &RequestContext),
    reply: &mut CreateContainerResponse,
) -> Result<(), PermissionDenied> {
    let (updates, evictions) = (&mut reply.update, &mut reply.evict);
    let rules = (&plugin.id, policy);
    let others = withhold_updates(&*core.manager, rules, None, updates, evictions);
    let Some(by) = withheld else { return others.denied(&plugin.id, policy) };
    let adjust = reply.adjust.take();
    let about = (&*merge.container().id, &*merge.pod().id);
    let changes =
        adjust.as_ref().is_some_and(|a| log_withheld_adjustment(&plugin.id, by, about, a));
    if !changes && others.is_empty() {
        return Ok(());
    }
    let Withheld { updates: update, evictions: evict } = others;
    let reply =
        CreateContainerResponse { adjust: adjust.into(), update, evict, ..Default::default() };
    let mut would_be = merge.clone();
    match would_be.reply(&plugin.id, reply) {
        Ok(()) => {
            let would_be = Ok(Box::new(would_be.finish()));
            context.record_withheld(WithheldReply { plugin: plugin.id.clone(), by, would_be });
            Ok(())
        }
        Err(source) => {
            let (event, subject) = (Event::CREATE_CONTAINER, merge.container().id.clone());
            let refusal = AdaptError::Merge { event, subject, source };
            // Records it, and never fails.
            let _ = context.refuse_unless(plugin, withheld, refusal);
            Ok(())
        }
    }
}

/// Returns the part of a snapshot that a plugin may know.
pub(crate) fn shown(
    manager: &dyn ContainerManager,
    policy: &PluginPolicy,
    snapshot: Snapshot,
) -> Snapshot {
    if policy.scope.is_none() {
        return snapshot;
    }
    let Snapshot { mut pods, mut containers } = snapshot;
    let of_id: HashMap<_, _> = pods.iter().map(|pod| (pod.id.clone(), pod.clone())).collect();
    let shows = |pod: &PodSandbox, container: Option<&Container>, id: &str| {
        policy.shows(Some(&Subject::new(pod, container, manager.origin(id))))
    };
    containers.retain(|container| {
        let pod = of_id.get(&container.pod_sandbox_id);
        shows(pod.unwrap_or(&PodSandbox::default()), Some(container), &container.id)
    });
    pods.retain(|pod| shows(pod, None, &pod.id));
    Snapshot { pods, containers }
}

impl Core {
    /// Returns what the scopes of policies are compared with for a request; `None` while no policy
    /// has a scope. `origin` is that of a pod or container that the manager does not have yet.
    pub(crate) fn subject_of(
        &self,
        request: &impl EventRequest,
        origin: Option<&Origin>,
    ) -> Option<Subject> {
        self.config().policies.iter().any(|policy| policy.scope.is_some()).then(|| {
            let (pod, container) = request.about();
            let known = || self.manager.origin(request.subject());
            Subject::new(pod, container, origin.cloned().unwrap_or_else(known))
        })
    }
}
