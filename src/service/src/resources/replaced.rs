//! Updates of other containers that plugins request with a creation. They are part of it: if the
//! creation fails, each field gets back the value and the owner that it had, unless a later update
//! has set the field. What was replaced is in the record of the updated container.

use crate::{
    resources::{
        changes::all_owners,
        enforce::with_resets,
        manager::ResourceManager,
        owners,
        update::{HUNG_INTERVAL, ResourceRequest, ResourceUpdate, lock_for_update},
    },
    state::{
        container::{Container, UpdateLock},
        derived::DerivedFields,
        record::{ControlFile, EffectiveResources, PendingUpdate, Record, ReplacedResources},
        status::ContainerStatus,
    },
};
use nri_api::{
    opt,
    proto::{Field, FieldOwners, LinuxResources},
};
use nri_spec::resource_changes;
use protobuf::Enum;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};
use tokio::time::timeout;

impl ReplacedResources {
    /// Returns the record's fields after these have been put back.
    fn put_back(&self, record: &Record, replaced: Vec<Self>) -> PendingUpdate {
        let mut effective = EffectiveResources::of(Value::clone(&record.effective));
        let (mut owners, mut derived) = (record.owners.clone(), record.derived.clone());
        self.put_into(&self.fields, &mut effective, &mut owners, &mut derived);
        if effective.blockio_class.is_some()
            && let Some(class) = record.effective.get("blockIO")
        {
            let old = effective.resources.get("blockIO").cloned().unwrap_or_else(|| json!({}));
            effective.resources["blockIO"] = with_resets(class, old);
        }
        PendingUpdate {
            requested: Value::clone(&record.requested),
            effective,
            owners,
            derived,
            replaced,
            caller: None,
            notify: false,
        }
    }

    /// Sets these fields to the values and the owners that were replaced.
    fn put_into(
        &self,
        fields: &FieldOwners,
        effective: &mut EffectiveResources,
        owners: &mut FieldOwners,
        derived: &mut DerivedFields,
    ) {
        let has = |field: Field| owners::has(fields, field.value(), None);
        for change in resource_changes(&effective.resources.clone(), &self.effective.resources) {
            let is_set = |field: Field| owners::has(fields, field.value(), change.key.as_deref());
            if change.row.owner.is_some_and(is_set) {
                change.apply(&mut effective.resources);
            }
        }
        if has(Field::BlockioClass) {
            effective.blockio_class.clone_from(&self.effective.blockio_class);
        }
        if has(Field::RdtClass) {
            effective.rdt_class.clone_from(&self.effective.rdt_class);
        }
        owners::put_back(owners, fields, self.owners.clone());
        // Whether it follows from the limit of memory goes with the limit of swap.
        if has(Field::MemSwapLimit) {
            derived.clone_from(&self.derived);
        }
        derived.set_swap(!derived.is_empty(), owners);
    }

    /// Takes out what the update for a creation that failed has replaced. What an update for
    /// another creation has set since is left to the undo of that one.
    fn take(all: &mut Vec<Self>, creation: &str) -> Option<Self> {
        let at = all.iter().position(|replaced| replaced.creation == creation)?;
        let mut taken = all.remove(at);
        for later in all.iter_mut().skip(at) {
            let mut fields = taken.fields.clone();
            owners::keep(&mut fields, &later.fields);
            let Self { effective, owners, derived, .. } = later;
            taken.put_into(&fields, effective, owners, derived);
            let files = taken.files.iter();
            let moved = files.filter(|file| owners::owner(&fields, &file.field).is_some());
            later.files.extend(moved.cloned());
            owners::remove(&mut taken.fields, &fields);
        }
        Some(taken)
    }

    /// Forgets what the update for a creation has replaced, and that an earlier one has set the
    /// same fields.
    fn forget(all: &mut Vec<Self>, creation: &str) {
        let Some(at) = all.iter().position(|replaced| replaced.creation == creation) else {
            return;
        };
        let kept = all.remove(at);
        all.iter_mut()
            .take(at)
            .for_each(|earlier| owners::remove(&mut earlier.fields, &kept.fields));
    }
}

impl ResourceManager {
    /// Returns what earlier updates for creations have replaced, and what this update replaces, if
    /// it is for a creation; else without what this update sets. `after` are the resources after
    /// it, `sets_swap` is whether it sets the limit of swap, because that follows the one of
    /// memory.
    pub(super) async fn replaced(
        &self,
        before: &Record,
        request: &ResourceRequest<'_>,
        (after, sets_swap): (&EffectiveResources, bool),
        files: &[ControlFile],
    ) -> Vec<ReplacedResources> {
        let ResourceRequest { by_engine, owners, creation, .. } = *request;
        let mut set = owners.clone();
        if sets_swap {
            set.simple.insert(Field::MemSwapLimit.value(), all_owners(owners));
        }
        let mut replaced = before.replaced.clone();
        for earlier in &mut replaced {
            owners::release(&mut earlier.fields, by_engine);
            if creation.is_none() {
                owners::remove(&mut earlier.fields, &set);
            }
        }
        replaced.retain(|earlier| !owners::by_field(&earlier.fields).is_empty());
        let Some(creation) = creation else { return replaced };
        let mut effective = self.classes_before(before, after).await;
        effective.resources = Value::clone(&before.effective);
        if let Some(resources) = effective.resources.as_object_mut() {
            resources.remove("devices");
        }
        replaced.push(ReplacedResources {
            creation: creation.to_owned(),
            fields: set,
            effective,
            owners: before.owners.clone(),
            derived: before.derived.clone(),
            files: files.to_vec(),
        });
        replaced
    }

    /// Returns the classes of a container, for those that an update sets. An RDT class that is not
    /// defined any more is left out.
    async fn classes_before(
        &self,
        before: &Record,
        after: &EffectiveResources,
    ) -> EffectiveResources {
        let message = before.container.get().linux.unwrap_or_default().resources;
        let name = |class: Option<&nri_api::proto::OptionalString>| {
            class.map(|class| class.value.clone()).unwrap_or_default()
        };
        let mut classes = EffectiveResources::of(Value::Null);
        if after.blockio_class.is_some() {
            classes.blockio_class = Some(name(message.blockio_class.as_ref()));
        }
        if after.rdt_class.is_some() {
            let rdt_class = opt(Some(name(message.rdt_class.as_ref())));
            let named = LinuxResources { rdt_class, ..Default::default() };
            let resolved = self.overlay(&Value::Null, &named, &before.owners).await;
            classes.rdt_class = resolved.ok().and_then(|resolved| resolved.rdt_class);
        }
        classes
    }

    /// Puts back what plugins have updated for a creation that failed. What cannot be put back is
    /// logged. `time_limit` is that of waiting for another update of a container.
    pub async fn undo_updates(&self, creation: &Container, time_limit: Duration) {
        for container in creation.take_updated() {
            if !self.registry.contains(&container) {
                continue;
            }
            if let Ok(lock) = timeout(time_limit, lock_for_update(&container)).await {
                self.put_back(&lock, creation).await;
                continue;
            }
            let record = self.forget_replaced(&container, creation);
            let (id, pod) = (&record.key.id, &record.pod_id);
            let creation = &creation.key().id;
            let message = "update of a failed creation not undone, another update is in progress";
            tracing::error!(container = id, pod, creation, "{message}");
        }
    }

    /// Keeps what plugins have updated for a creation that succeeded. The records are not written:
    /// the next `nrid` does the same.
    pub fn keep_updates(&self, creation: &Container) {
        for container in creation.take_updated() {
            self.forget_replaced(&container, creation);
        }
    }

    /// Ends the creation of a container that its runtime does not have: undoes the updates of other
    /// containers if the runtime has never had it, and keeps them otherwise. `time_limit` is that
    /// of waiting for other updates.
    pub async fn end_creation(&self, container: &Container, time_limit: Duration) {
        let record = container.record();
        // Without our hook, it is not reported whether `run` has created the container.
        let is_reported = record.hooked || !record.by_run;
        if record.status == ContainerStatus::Creating && is_reported {
            self.undo_updates(container, time_limit).await
        } else {
            self.keep_updates(container)
        }
    }

    /// Forgets what an update for a creation has replaced. The record is not written.
    fn forget_replaced(&self, container: &Container, creation: &Container) -> Arc<Record> {
        self.registry.change_if(container, |record| {
            ReplacedResources::forget(&mut record.replaced, creation.hook_name());
            false
        })
    }

    /// Finds the containers that plugins have updated for creations in progress, after a start.
    pub fn find_updated(&self) {
        let find = |replaced: &ReplacedResources| self.registry.by_hook_name(&replaced.creation);
        for container in self.registry.all() {
            for creation in container.record().replaced.iter().filter_map(find) {
                creation.add_updated(container.clone());
            }
            self.registry.change_if(&container, |record| {
                let ended = record.replaced.iter().filter(|replaced| find(replaced).is_none());
                let ended: Vec<String> = ended.map(|replaced| replaced.creation.clone()).collect();
                ended
                    .iter()
                    .for_each(|ended| ReplacedResources::forget(&mut record.replaced, ended));
                false
            });
        }
    }

    /// Puts back what an update for a creation has replaced.
    async fn put_back(&self, lock: &UpdateLock, creation: &Container) {
        let before = lock.record();
        let mut replaced = before.replaced.clone();
        let Some(undone) = ReplacedResources::take(&mut replaced, creation.hook_name()) else {
            return;
        };
        if owners::by_field(&undone.fields).is_empty() {
            self.registry.change(lock, |record| record.replaced = replaced);
            return;
        }
        let pending = undone.put_back(&before, replaced);
        let mut files = undone.files;
        files.retain(|file| owners::owner(&undone.fields, &file.field).is_some());
        let (plugins, creation) = (all_owners(&undone.fields), &creation.key().id);
        let message = format!("undo of an update by {plugins}: creation of {creation} failed");
        let runtime_hangs = lock.runtime_hung_within(HUNG_INTERVAL);
        let update = ResourceUpdate::of(before, pending, files, message);
        update.put_back(lock, self, runtime_hangs).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        state::{record::EXAMPLE, registry::Registry, store::Store},
    };
    use std::path::Path;

    /// Returns a record in which 20-b owns the memory limit, which that of swap follows.
    fn record() -> Record {
        let mut record: Record = serde_json::from_str(EXAMPLE).unwrap();
        (record.pending_update, record.owners) = (None, FieldOwners::new());
        record.requested = Arc::new(json!({"memory": {"limit": 90, "swap": 100}}));
        let pages = json!([{"pageSize": "2MB", "limit": 1}]);
        let effective = json!({"memory": {"limit": 80, "swap": 80}, "hugepageLimits": pages,
            "unified": {"memory.high": "7"}});
        record.effective = Arc::new(effective);
        record.owners.simple.insert(Field::MemLimit.value(), "20-b".to_owned());
        let unified = record.owners.compound.entry(Field::CgroupsUnified.value()).or_default();
        unified.owners.insert("memory.high".to_owned(), "20-b".to_owned());
        record.derived.set_swap(true, &mut record.owners);
        record
    }

    /// Returns a manager with a container that has this record. Files are in `dir`.
    fn managed(dir: &Path) -> (ResourceManager, Arc<Container>) {
        let (registry, _) = Registry::load(Store::open(dir).unwrap());
        let container = registry.insert(record()).unwrap();
        let config = nri_config::Config::default();
        (ResourceManager::new(Arc::new(registry), Audit::off(), &config), container)
    }

    #[tokio::test]
    async fn what_an_update_for_a_creation_has_set_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let (manager, container) = managed(dir.path());
        for (set, later) in [
            (json!({"memory": {"limit": 40}}), json!({})),
            (json!({"memory": {"limit": 40, "swap": 60}, "pids": {"limit": 5}}), json!({})),
            (json!({"unified": {"memory.high": "1", "pids.max": "2"}}), json!({})),
            (json!({"hugepageLimits": [{"pageSize": "1GB", "limit": 2}]}), json!({})),
            (json!({"cpu": {"shares": 9}}), json!({"pids": {"limit": 6}})),
            // The same value again, and the limit that the one of swap follows.
            (json!({"pids": {"limit": 6}}), json!({"pids": {"limit": 6}})),
            (json!({"memory": {"limit": 40}}), json!({"memory": {"limit": 40}})),
            (json!({"memory": {"limit": 40}}), json!({"memory": {"swap": 100}})),
        ] {
            let mut done = record();
            let mut expected = record();
            for (resources, creation) in [(&set, Some("k")), (&later, None)] {
                let merged = nri_spec::resources_to_nri(resources).unwrap();
                let owners = owners::of_plugin(&merged, "10-a");
                let (merged, owners) = (&merged, &owners);
                let (by_engine, caller, notify) = (&Value::Null, None, false);
                let request =
                    ResourceRequest { by_engine, merged, owners, caller, notify, creation };
                manager.registry.change(&container, |r| *r = done.clone());
                let plan = ResourceUpdate::plan(&manager, &container, request);
                done.complete(plan.await.unwrap().pending);
                if creation.is_none() {
                    manager.registry.change(&container, |r| *r = expected.clone());
                    let plan = ResourceUpdate::plan(&manager, &container, request);
                    expected.complete(plan.await.unwrap().pending);
                }
            }
            if let Some(replaced) = done.replaced.pop() {
                done.complete(replaced.put_back(&done, Vec::new()));
            }
            assert_eq!(done.effective, expected.effective, "{set} {later}");
            assert_eq!(done.owners, expected.owners, "{set} {later}");
            assert_eq!(done.derived, expected.derived, "{set} {later}");
        }
    }

    /// Two creations in progress update the same container.
    #[tokio::test]
    async fn updates_for_two_creations_are_undone_in_any_order() {
        let dir = tempfile::tempdir().unwrap();
        let (manager, container) = managed(dir.path());
        // The ends of the creations a and b, in their order, and which of their updates stays.
        for (ends, stays) in [
            (["-a", "-b"], ""),
            (["-b", "-a"], ""),
            (["-a", "+b"], "b"),
            (["+b", "-a"], "b"),
            (["+a", "-b"], "a"),
            (["-b", "+a"], "a"),
            (["+a", "+b"], "b"),
        ] {
            let (mut done, mut expected) = (record(), record());
            for creation in ["a", "b"] {
                let limit = if creation == "a" { 40 } else { 20 };
                let set = json!({"memory": {"limit": limit}, "pids": {"limit": limit}});
                let merged = nri_spec::resources_to_nri(&set).unwrap();
                let owners = owners::of_plugin(&merged, &format!("10-{creation}"));
                let (merged, owners) = (&merged, &owners);
                let (by_engine, caller, notify) = (&Value::Null, None, false);
                let mut records = vec![(&mut done, Some(creation))];
                if stays == creation {
                    records.push((&mut expected, None));
                }
                for (record, creation) in records {
                    let request =
                        ResourceRequest { by_engine, merged, owners, caller, notify, creation };
                    manager.registry.change(&container, |r| *r = record.clone());
                    let plan = ResourceUpdate::plan(&manager, &container, request);
                    record.complete(plan.await.unwrap().pending);
                }
            }
            for end in ends {
                let (is_kept, creation) = (end.starts_with('+'), &end[1..]);
                let mut replaced = done.replaced.clone();
                if is_kept {
                    ReplacedResources::forget(&mut replaced, creation);
                    done.replaced = replaced;
                } else {
                    let taken = ReplacedResources::take(&mut replaced, creation).unwrap();
                    done.complete(taken.put_back(&done, replaced));
                }
            }
            assert_eq!(done.effective, expected.effective, "{ends:?}");
            assert_eq!(done.owners, expected.owners, "{ends:?}");
            assert_eq!(done.derived, expected.derived, "{ends:?}");
        }
    }
}
