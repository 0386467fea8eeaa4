//! `update`: what the engine asks for goes to the plugins, and what is in force with it goes to the
//! runtime.

mod not_given;

use crate::{
    error::{CallerError, Error},
    lifecycle::{
        events::about,
        recovery::{note_pod_resources, settle_update},
    },
    resources::{
        apply::{By, check_required, follow_swap, refuse_unsettable, update_document},
        enforce::Laid,
        owners,
    },
    service::Service,
    state::{
        record::{Caller, Key, Pending, Record},
        registry::Container,
    },
    verb::{shadow::tell_refusals, update_args},
};
use nri_adaptation::{AdaptError, UpdateOutcome};
use nri_api::proto::{self, UpdateContainerRequest};
use nri_control::{Begin, OsText, Substitute};
use nri_spec::{changed, overlay, resources_to_nri};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// An update that is under way.
#[derive(Debug)]
pub struct Update {
    container: Arc<Container>,
    /// What the record has after it.
    pending: Pending,
    /// No other update of the container comes in between.
    _turn: OwnedMutexGuard<()>,
    /// How the runtime is to be called.
    pub substitute: Substitute,
}

impl Service {
    /// Prepares an update; `None` for a container that is not known. The caller holds the lane.
    ///
    /// # Errors
    /// Arguments or a document that are not understood, or a plugin that refuses.
    pub async fn update(
        &self,
        begin: &Begin,
        key: &Key,
        caller: Option<Caller>,
    ) -> Result<Option<Update>, Error> {
        let Some(container) = self.registry.get(key) else { return Ok(None) };
        let arguments = update_args::parse(&begin.arguments, &key.id).map_err(CallerError::from)?;
        let record = container.record();
        let (request, asked) = match &begin.resources {
            Some(text) => {
                let mut document: Value =
                    serde_json::from_str(text).map_err(CallerError::Resources)?;
                if document.is_null() {
                    // To the runtimes an empty one.
                    document = Value::Object(Default::default());
                }
                let Some(fields) = document.as_object_mut() else {
                    return Err(CallerError::ResourcesNotAnObject.into());
                };
                if record.maker.is_docker() {
                    not_given::drop_zeros_of_docker(fields);
                }
                // Engines that send the whole document ask for what differs from the last one.
                let request = changed(&record.asked, &document);
                (request.clone(), merged(&record.asked, &request))
            }
            None => (arguments.flags.clone(), merged(&record.asked, &arguments.flags)),
        };
        let requested = resources_to_nri(&request).map_err(CallerError::ResourceField)?;
        let (pod, message) = self.registry.messages(&container);
        if record.sandbox {
            let turn = self.agree_on_pod(&container, pod, requested).await?;
            let laid = Laid::of(merged(&record.in_force, &request));
            let pending = Pending { asked, laid, owners: record.owners, caller, told: true };
            return self.begun(container, pending, turn, Substitute::default()).map(Some);
        }
        if !self.engine_nri.is_ours(&self.settings().config.engines, &record.maker).await {
            // Its engine's NRI was switched on after it was created: what our plugins set stays,
            // but they have no say any more.
            let turn = container.setting.clone().lock_owned().await;
            let record = container.record();
            let mut in_force = merged(&record.in_force, &request);
            follow_swap(&record.in_force, request.pointer("/memory/swap").is_some(), &mut in_force);
            let ours = record.has_owned_resources() || record.in_force != record.asked;
            let substitute = if ours {
                substitute(&in_force, arguments.others, &key.id)
            } else {
                Substitute::default()
            };
            let mut owners = record.owners;
            owners::pass_on(&mut owners, &request, None);
            let pending = Pending { asked, laid: Laid::of(in_force), owners, caller, told: false };
            return self.begun(container, pending, turn, substitute).map(Some);
        }
        let event = UpdateContainerRequest {
            pod: Some(pod).into(),
            container: Some(message).into(),
            linux_resources: Some(requested).into(),
            ..Default::default()
        };
        let id = record.container.id.clone();
        let asking = self.asking();
        let shadow = asking.consults_all();
        let agreed = self
            .adaptation
            .update_container(event, &asking, |outcome| self.agree(&container, &request, outcome))
            .await;
        tell_refusals(asking);
        let agreed = agreed.map_err(Error::from).and_then(|agreed| agreed);
        let (outcome, turn) = match agreed {
            Ok((outcome, turn)) if shadow => {
                if let Some(answer) = outcome.answer {
                    tracing::info!(container = key.id, ?answer, "shadow: would be updated");
                }
                (UpdateOutcome::default(), turn)
            }
            Err(error) if shadow => {
                let error = error.line(&key.id);
                tracing::info!(container = key.id, error, "shadow: would be refused");
                (UpdateOutcome::default(), container.setting.clone().lock_owned().await)
            }
            agreed => agreed?,
        };
        // Only now: other updates of this container may have been made while the plugins were
        // asked.
        let record = container.record();
        let base = merged(&record.in_force, &request);
        let mut in_force = match outcome.touched {
            true => self.keeper.lay(&base, &outcome.resources)?,
            false => Laid::of(base),
        };
        let swap_given =
            request.pointer("/memory/swap").is_some() || outcome.resources.memory.swap.is_some();
        follow_swap(&record.in_force, swap_given, &mut in_force.resources);
        let mut owners = record.owners.clone();
        // What the engine asked for is its own, where no plugin had a word on it.
        owners::pass_on(&mut owners, &request, None);
        if let Some(new) = outcome.owners.owners.get(&id) {
            owners::take_over(&mut owners, new);
        }
        let ours =
            outcome.touched || record.has_owned_resources() || record.in_force != record.asked;
        let substitute = if ours {
            substitute(&in_force.resources, arguments.others, &key.id)
        } else {
            Substitute::default()
        };
        let pending = Pending { asked, laid: in_force, owners, caller, told: true };
        self.begun(container, pending, turn, substitute).map(Some)
    }

    /// Keeps what is about to be made, so that a successor knows of it; what cannot be kept is not
    /// made.
    fn begun(
        &self,
        container: Arc<Container>,
        pending: Pending,
        turn: OwnedMutexGuard<()>,
        substitute: Substitute,
    ) -> Result<Update, Error> {
        self.registry.try_change(&container, |r| r.pending = Some(pending.clone()))?;
        Ok(Update { container, pending, _turn: turn, substitute })
    }

    /// Nobody tells whether the runtime has made the update: what the control groups hold counts.
    pub async fn perhaps_updated(&self, update: &Update) {
        let settled = settle_update(&self.registry, &update.container);
        if update.container.record().in_force != update.pending.laid.resources {
            return self.take_back(update).await;
        }
        self.keeper.check_settled(&update.container, &settled);
        if update.pending.told {
            self.tell_settled(&update.container);
        }
    }

    /// The runtime has not made the update.
    pub async fn not_updated(&self, update: &Update) {
        self.registry.change(&update.container, |r| r.pending = None);
        self.take_back(update).await;
    }

    /// crun leaves what it has written before it failed. Where plugins have no part in it, that is
    /// between it and the engine.
    async fn take_back(&self, update: &Update) {
        if update.substitute.arguments.is_some() {
            self.keeper.take_back(&update.container.record(), &update.pending.laid).await;
        }
    }

    /// Plugins cannot change the update of a pod, only refuse it.
    async fn agree_on_pod(
        &self,
        sandbox: &Container,
        pod: proto::PodSandbox,
        requested: proto::LinuxResources,
    ) -> Result<OwnedMutexGuard<()>, AdaptError> {
        let request = proto::UpdatePodSandboxRequest {
            pod: Some(pod).into(),
            linux_resources: Some(requested).into(),
            ..Default::default()
        };
        let asking = self.asking();
        let commit = || sandbox.setting.clone().lock_owned();
        let agreed = self.adaptation.update_pod_sandbox(request, &asking, commit).await;
        tell_refusals(asking);
        agreed
    }

    /// Runs at the commit station: updates of other containers are made, and the turn at this one
    /// is taken.
    async fn agree(
        &self,
        container: &Container,
        request: &Value,
        outcome: UpdateOutcome,
    ) -> Result<(UpdateOutcome, OwnedMutexGuard<()>), Error> {
        let own = outcome
            .answer
            .as_ref()
            .and_then(|a| a.linux.as_ref())
            .and_then(|l| l.resources.as_ref());
        if let Some(own) = own {
            refuse_unsettable(own)?;
            let record = container.record();
            let before = merged(&record.in_force, request);
            let after = self.keeper.lay(&before, own)?;
            let owners =
                outcome.owners.owners.get(&record.container.id).cloned().unwrap_or_default();
            let record = Record { in_force: before, ..record };
            self.keeper.check_wanted(&record, &after, &owners).await?;
        }
        let failed =
            self.keeper.set_all(outcome.updates.clone(), By::Merged(&outcome.owners)).await;
        check_required(failed)?;
        self.keeper.evict_all(outcome.evictions.clone());
        Ok((outcome, container.setting.clone().lock_owned().await))
    }

    /// The runtime has made the update.
    ///
    /// # Errors
    /// The control groups do not hold what plugins set, and cannot be made to.
    pub async fn updated(&self, update: Update) -> Result<(), Error> {
        let Update { container, pending, .. } = update;
        let told = pending.told;
        let (asked, owners) = (pending.asked.clone(), pending.owners.clone());
        let record = Record { asked, owners, ..container.record() };
        let mut enforced = self.keeper.enforce_strictly(&record, &pending.laid.resources);
        if let (Ok(()), Some((_, group))) = (&enforced, &pending.laid.rdt_class) {
            enforced = self.keeper.move_to_rdt_group(&record, group);
        }
        // Also if something is not in force: it is what is wanted, and the next update tries again.
        let record = self.registry.change(&container, |r| r.complete(pending));
        note_pod_resources(&self.registry, &record);
        let enforced = enforced.map_err(Error::from);
        if !told {
            return enforced;
        }
        self.tell_updated(&container);
        enforced
    }

    /// Tells what is in force after an update that a former `nrid` began.
    pub fn tell_settled(&self, container: &Container) {
        note_pod_resources(&self.registry, &container.record());
        self.tell_updated(container);
    }

    /// Tells what is in force after an update.
    fn tell_updated(&self, container: &Container) {
        let (pod, message) = self.registry.messages(container);
        // They take their places now; nobody waits for them.
        if container.record().sandbox {
            let request =
                proto::PostUpdatePodSandboxRequest { pod: Some(pod).into(), ..Default::default() };
            drop(self.adaptation.post_update_pod_sandbox(request));
        } else {
            drop(self.adaptation.post_update_container(about!(
                PostUpdateContainerRequest,
                pod,
                message
            )));
        }
    }
}

fn merged(base: &Value, top: &Value) -> Value {
    let mut merged = base.clone();
    overlay(&mut merged, top);
    merged
}

fn substitute(in_force: &Value, others: Vec<OsText>, id: &str) -> Substitute {
    let mut arguments = vec![OsText::from("--resources"), OsText::from("-")];
    arguments.extend(others);
    arguments.push(OsText::from(id));
    Substitute { arguments: Some(arguments), stdin: Some(update_document(in_force).to_string()) }
}
