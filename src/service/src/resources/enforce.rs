//! Enforcement: after the runtime has created or updated a container, compares the resources that
//! plugins set with the control groups, and writes the values that differ. Enforcement also sets
//! the resources that no runtime's `update` sets (huge pages, swappiness, block I/O limits).
//!
//! What plugins set is the difference between requested and effective resources; what only the
//! engine requested is between it and its runtime, and nothing overwrites it. `nri-cgroup` turns
//! the difference into a list: which file, what to write, what the kernel may show. After a `run`
//! our hook causes the comparison, otherwise the report of the wrapper.

use crate::{
    cgroup::{
        files::{self, Drift},
        location,
    },
    error::ResourceError,
    host::{
        classes::{self, ClassError},
        file_access::{self, FileSystem},
    },
    resources::{manager::ResourceManager, owners, updatable::cgroup_part},
    state::{
        container::Container,
        record::{ControlFile, EffectiveResources, Record},
    },
};
use nri_api::{
    field_name,
    proto::{Field, FieldOwners, LinuxResources},
};
use nri_cgroup::{CgroupDirs, CgroupWrite, EffectiveValue, Plan, plan, resctrl_writes};
use nri_config::Enforce;
use nri_spec::{changed, merge_resources};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, path::Path, time::Duration};

/// Default block I/O weight of a control group in cgroup v2.
const DEFAULT_WEIGHT: u64 = 100;

/// Time limit of reading the files of classes, since commits of other containers wait meanwhile.
const CLASSES_TIMEOUT: Duration = Duration::from_secs(2);

/// Number of attempts at moving the threads of a container: threads may be created during an
/// attempt.
const MOVE_ATTEMPTS: usize = 3;

/// Per-device lists of `blockIO`, each with the field in which a zero removes a device's limit.
const BY_DEVICE: [(&str, &str); 5] = [
    ("throttleReadBpsDevice", "rate"),
    ("throttleWriteBpsDevice", "rate"),
    ("throttleReadIOPSDevice", "rate"),
    ("throttleWriteIOPSDevice", "rate"),
    ("weightDevice", "weight"),
];

/// Handling of a created container in which the resources set by plugins cannot be made effective.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfNotEffective {
    /// The caller's verb fails.
    Refuse,
    /// No caller waits for the creation any more. The start enforces the resources again, and fails
    /// if they still are not effective.
    RetryAtStart,
}

impl ResourceManager {
    /// Resolves the classes of resources, in limited time. `owners` is for errors.
    ///
    /// # Errors
    /// A class cannot be resolved.
    pub async fn resolve_classes(
        &self,
        resources: &LinuxResources,
        owners: &FieldOwners,
    ) -> Result<classes::Resolved, ClassError> {
        let LinuxResources { blockio_class, rdt_class, .. } = resources;
        if blockio_class.is_none() && rdt_class.is_none() {
            return Ok(classes::Resolved::default());
        }
        let (blockio_class, rdt_class) = (blockio_class.clone(), rdt_class.clone());
        let named = LinuxResources { blockio_class, rdt_class, ..Default::default() };
        let (read, policy) = (named.clone(), self.policy());
        let read = move || classes::Resolved::of(&read, &policy.classes.sources());
        file_access::run(FileSystem::Classes, CLASSES_TIMEOUT, read)
            .await
            .unwrap_or_else(|hangs| Err(ClassError::hangs(&named, hangs)))
            .map_err(|error| error.with_owner(owners))
    }

    /// Returns `base` with the requested resources merged over it and class names resolved.
    /// `owners` is for errors.
    ///
    /// # Errors
    /// A class cannot be resolved.
    pub async fn overlay(
        &self,
        base: &Value,
        requested: &LinuxResources,
        owners: &FieldOwners,
    ) -> Result<EffectiveResources, ClassError> {
        let mut resources = base.clone();
        merge_resources(&mut resources, requested);
        let classes = self.resolve_classes(requested, owners).await?;
        let blockio_class = requested.blockio_class.as_ref().map(|c| c.value.clone());
        if blockio_class.is_some() {
            let class = classes.blockio.unwrap_or_else(|| json!({}));
            let before = base.get("blockIO").cloned().unwrap_or_default();
            if let Some(fields) = resources.as_object_mut() {
                fields.insert("blockIO".to_owned(), with_resets(&before, class));
            }
        }
        let closid =
            |rdt: Value| rdt.get("closID").and_then(Value::as_str).unwrap_or_default().to_owned();
        let rdt_class = requested.rdt_class.as_ref().map(|class| {
            let group = classes.rdt.map(closid).unwrap_or_default();
            (class.value.clone(), group)
        });
        Ok(EffectiveResources { resources, blockio_class, rdt_class })
    }

    /// Checks that this host has the group of the RDT class, and a file for each field that differs
    /// from `before` and that no runtime's `update` sets. `owners` is for errors.
    ///
    /// # Errors
    /// A controller, a file or the group of an RDT class does not exist; the error names it.
    pub fn check_cgroup_files(
        &self,
        record: &Record,
        before: &Value,
        wanted: &EffectiveResources,
        owners: &FieldOwners,
    ) -> Result<(), ResourceError> {
        if let Some((class, group)) =
            wanted.rdt_class.as_ref().filter(|(_, group)| !group.is_empty())
        {
            let (class, group) = (class.clone(), self.policy().classes.resctrl.join(group));
            if !group.is_dir() {
                let field = owners::with_owner(owners, field_name(Field::RdtClass));
                return Err(ResourceError::NoRdtGroup { field, class, group });
            }
        }
        let by_cgroups = cgroup_part(&changed(before, &wanted.resources));
        if by_cgroups.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(());
        }
        let dirs = record.cgroup().ok_or(ResourceError::UnknownCgroup)?;
        let Plan { writes, unsupported } = plan(&by_cgroups, &dirs);
        if !unsupported.is_empty() {
            let named = unsupported.iter().map(|field| owners::with_owner(owners, field));
            return Err(ResourceError::NoController(named.collect()));
        }
        let missing =
            |s: &&CgroupWrite| !s.is_optional && !s.files.iter().any(|file| file.exists());
        match writes.iter().find(missing) {
            Some(setting) => {
                let file = files::file(setting).unwrap_or(Path::new("")).to_owned();
                let field = owners::with_owner(owners, &setting.field);
                Err(ResourceError::NoControlFile { field, file })
            }
            None => Ok(()),
        }
    }

    /// Writes the values of plugins that differ from the control groups, and returns the values
    /// that still differ. `wanted` has all resources of the container; fields that only the engine
    /// set are skipped, because setting them is the runtime's task.
    pub fn enforce(&self, record: &Record, wanted: &Value) -> Vec<Drift> {
        self.enforce_with(record, wanted, &Value::Null)
    }

    /// Enforces like [`Self::enforce`], and also enforces the fields present in `additional`.
    pub fn enforce_with(&self, record: &Record, wanted: &Value, additional: &Value) -> Vec<Drift> {
        if self.policy().enforce == Enforce::Off {
            return Vec::new();
        }
        if is_empty(additional) && !has_resources_of_plugins(record, wanted) {
            return Vec::new();
        }
        let Some(dirs) = record.cgroup() else {
            tracing::warn!(
                container = record.key.id,
                pod = record.pod_id,
                "container cgroup unknown, enforcement skipped"
            );
            return Vec::new();
        };
        // Enforce also a field that a plugin set to the engine's value: the control group may hold
        // another value.
        let mut fields = fields_of(&changed(&record.requested, wanted), &dirs);
        fields.extend(fields_of(additional, &dirs));
        let mut plan = plan(wanted, &dirs).writes;
        plan.retain(|s| {
            fields.contains(&s.field) || owners::owner(&record.owners, &s.field).is_some()
        });
        let mut drift = files::enforce(&plan);
        self.count_mismatches(drift.len());
        for drift in &mut drift {
            drift.owner = owners::owner(&record.owners, &drift.field);
            let (container, pod, plugin) = (&record.key.id, &record.pod_id, &drift.owner);
            tracing::error!(container, pod, plugin, %drift, "resource not effective");
        }
        drift
    }

    /// Enforces, and under `enforce = "strict"` fails if a value is not effective.
    ///
    /// # Errors
    /// Values are not effective, or the container's control groups are unknown, so that no value
    /// can be compared.
    pub fn enforce_strictly(&self, record: &Record, wanted: &Value) -> Result<(), ResourceError> {
        let drift = self.enforce(record, wanted);
        if self.policy().enforce != Enforce::Strict {
            return Ok(());
        }
        if !drift.is_empty() {
            return Err(ResourceError::NotEffective(drift));
        }
        let is_unknown = || record.cgroup().is_none_or(|dirs| dirs.dirs().is_empty());
        if has_resources_of_plugins(record, wanted) && is_unknown() {
            return Err(ResourceError::UnknownCgroup);
        }
        Ok(())
    }

    /// Enforces the effective resources of a created container, whose process does not run yet.
    ///
    /// # Errors
    /// The resources cannot be made effective, and `if_not_effective` is `Refuse`.
    pub fn enforce_created(
        &self,
        container: &Container,
        if_not_effective: IfNotEffective,
    ) -> Result<(), ResourceError> {
        let record = container.record();
        let enforced = self.enforce_strictly(&record, &record.effective);
        if enforced.is_ok() || if_not_effective == IfNotEffective::RetryAtStart {
            container.set_enforcement_pending(enforced.is_err());
            return Ok(());
        }
        enforced
    }

    /// Moves the container's threads into a group of resctrl; an empty name is the root group.
    ///
    /// # Errors
    /// The container's cgroup is unknown, or a live thread cannot be moved.
    pub fn move_to_rdt_group(&self, record: &Record, group: &str) -> Result<(), ResourceError> {
        let dirs = record.cgroup().ok_or(ResourceError::UnknownCgroup)?;
        let group = Some(group).filter(|g| !g.is_empty());
        // Each attempt lists the threads again: a thread that was not moved yet may have created
        // another thread, which is then in the old group, too.
        for _ in 0..MOVE_ATTEMPTS {
            let settings =
                resctrl_writes(&self.policy().classes.resctrl, group, &location::threads(&dirs));
            let unmoved = files::enforce(&settings);
            let Some(first) = unmoved.first() else { return Ok(()) };
            let alive = location::threads(&dirs);
            if !unmoved
                .iter()
                .any(|drift| alive.iter().any(|thread| thread.to_string() == drift.wanted))
            {
                return Ok(());
            }
            tracing::debug!(%first, "thread not moved, trying again");
        }
        Err(ResourceError::RdtThreads { container: record.key.id.clone() })
    }
}

/// Writes the values that `wanted` has for the fields present in `part`, also if `enforce` is off.
/// Returns the values that still differ from the control groups.
pub fn write_fields(record: &Record, wanted: &Value, part: &Value) -> Vec<Drift> {
    let Some(dirs) = record.cgroup() else {
        let (container, pod) = (&record.key.id, &record.pod_id);
        tracing::warn!(container, pod, "container cgroup unknown, resources not restored");
        return Vec::new();
    };
    files::enforce(&writes_of(wanted, part, &dirs))
}

/// Returns the writes of `wanted` for the fields present in `part`. They are planned from all
/// resources, since the content of a file may depend on several fields.
pub fn writes_of(wanted: &Value, part: &Value, dirs: &CgroupDirs) -> Vec<CgroupWrite> {
    let fields = fields_of(part, dirs);
    let mut writes = plan(wanted, dirs).writes;
    writes.retain(|write| fields.contains(&write.field));
    writes
}

/// Returns the control files of those fields that an update sets and that have no value.
pub fn files_without_value(record: &Record, after: &Value) -> Vec<ControlFile> {
    let Some(dirs) = record.cgroup() else { return Vec::new() };
    let known = fields_of(&record.effective, &dirs);
    let mut writes = writes_of(after, &changed(&record.effective, after), &dirs);
    writes.retain(|write| !known.contains(&write.field));
    let file = |write: CgroupWrite| {
        let path = files::file(&write)?.to_owned();
        let content = fs::read_to_string(&path).ok()?;
        // A file with several lines has limits of devices, which are removed one by one.
        (content.lines().count() == 1).then_some(ControlFile { field: write.field, path, content })
    };
    writes.into_iter().filter_map(file).collect()
}

/// Writes control files again. Returns those that do not have their content.
pub fn restore_files(all: &[ControlFile]) -> Vec<Drift> {
    let write = |file: &ControlFile| CgroupWrite {
        field: file.field.clone(),
        files: vec![file.path.clone()],
        texts: vec![file.content.clone()],
        effective: EffectiveValue::OneOf(vec![file.content.trim().to_owned()]),
        is_optional: true,
    };
    files::enforce(&all.iter().map(write).collect::<Vec<_>>())
}

fn fields_of(part: &Value, dirs: &CgroupDirs) -> BTreeSet<String> {
    plan(part, dirs).writes.into_iter().map(|write| write.field).collect()
}

/// Whether plugins have set any of the resources `wanted`.
fn has_resources_of_plugins(record: &Record, wanted: &Value) -> bool {
    !is_empty(&changed(&record.requested, wanted)) || record.has_owned_resources()
}

fn is_empty(resources: &Value) -> bool {
    resources.as_object().is_none_or(serde_json::Map::is_empty)
}

/// Returns the class, with a zero limit for each device limit in `before` that the class lacks: a
/// zero removes the limit in the control group.
pub(super) fn with_resets(before: &Value, class: Value) -> Value {
    let mut after = class;
    for (list, value) in BY_DEVICE {
        let device = |entry: &Value| (entry.get("major").cloned(), entry.get("minor").cloned());
        let kept: Vec<_> =
            after.get(list).and_then(Value::as_array).into_iter().flatten().map(device).collect();
        let old = before.get(list).and_then(Value::as_array).into_iter().flatten();
        let removed = old.filter(|entry| !kept.contains(&device(entry)));
        let resets: Vec<Value> = removed
            .map(|entry| {
                let mut reset = entry.clone();
                reset[value] = 0.into();
                reset
            })
            .collect();
        if let (Some(fields), false) = (after.as_object_mut(), resets.is_empty()) {
            let list = fields.entry(list).or_insert_with(|| json!([]));
            if let Some(list) = list.as_array_mut() {
                list.extend(resets);
            }
        }
    }
    if before.get("weight").is_some()
        && let Some(fields) = after.as_object_mut()
    {
        fields.entry("weight").or_insert_with(|| DEFAULT_WEIGHT.into());
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        resources::manager::ResourcePolicy,
        state::{registry::Registry, store::Store},
    };
    use nri_api::opt;
    use std::sync::Arc;

    /// A plain directory stands for resctrl, which needs hardware support.
    #[tokio::test]
    async fn threads_are_written_to_the_group_of_their_rdt_class() {
        let dir = tempfile::tempdir().unwrap();
        let resctrl = dir.path().join("resctrl");
        fs::create_dir_all(resctrl.join("gold")).unwrap();
        for file in ["schemata", "tasks", "gold/tasks"] {
            fs::write(resctrl.join(file), "").unwrap();
        }
        let (registry, _) = Registry::load(Store::open(&dir.path().join("state")).unwrap());
        let config = nri_config::Config::default();
        let manager = ResourceManager::new(Arc::new(registry), Audit::off(), &config);
        let mut policy = ResourcePolicy::of(&config);
        policy.classes.resctrl.clone_from(&resctrl);
        manager.set_policy(policy);
        let requested = |class: &str| LinuxResources {
            rdt_class: opt(Some(class.to_owned())),
            ..Default::default()
        };
        let owners = FieldOwners::default();
        let gold = manager.overlay(&json!({}), &requested("gold"), &owners).await.unwrap();
        assert_eq!(gold.rdt_class, Some(("gold".to_owned(), "gold".to_owned())));
        let no_class = manager.overlay(&json!({}), &requested(""), &owners).await.unwrap();
        assert_eq!(no_class.rdt_class, Some((String::new(), String::new())));
        let unknown =
            manager.overlay(&json!({}), &requested("lead"), &owners).await.unwrap_err().to_string();
        assert!(unknown.contains("rdt_class \"lead\" is not defined"), "{unknown}");
        // Moving a thread, here 4711, writes its id to the `tasks` file of the group.
        let moved = resctrl_writes(&resctrl, Some("gold"), &[4711]);
        assert!(files::enforce(&moved).is_empty());
        assert_eq!(fs::read_to_string(resctrl.join("gold/tasks")).unwrap(), "4711");
        assert!(files::enforce(&resctrl_writes(&resctrl, None, &[4711])).is_empty());
        assert_eq!(fs::read_to_string(resctrl.join("tasks")).unwrap(), "4711");
    }

    #[test]
    fn a_class_resets_limits_that_it_does_not_have() {
        let device =
            |minor: u64, value: &str, n: u64| json!({"major": 8, "minor": minor, value: n});
        let before = json!({
            "weight": 300, "throttleReadBpsDevice": [device(0, "rate", 5), device(1, "rate", 6)],
            "weightDevice": [device(0, "weight", 7)]
        });
        let class = json!({"throttleReadBpsDevice": [device(1, "rate", 9)]});
        assert_eq!(
            with_resets(&before, class),
            json!({
                "throttleReadBpsDevice": [device(1, "rate", 9), device(0, "rate", 0)],
                "weightDevice": [device(0, "weight", 0)], "weight": 100
            })
        );
        assert_eq!(with_resets(&Value::Null, json!({"weight": 1})), json!({"weight": 1}));
    }
}
