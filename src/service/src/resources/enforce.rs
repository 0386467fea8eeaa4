//! What was agreed on is what the kernel has: the part of the resources that plugins set is
//! compared with the control groups after the runtime has done its work, and what is missing is
//! written. So what no runtime's `update` can set (huge pages, swappiness, the limits of block I/O)
//! is set, too.

use crate::{
    cgroup::{
        files::{self, Drift},
        location,
    },
    host::classes::{self, ClassError},
    resources::{apply::update_document, error::ResourceError, keeper::Keeper, owners},
    state::record::{EffectiveResources, Record},
};
use nri_api::proto::LinuxResources;
use nri_cgroup::{CgroupWrite, Plan, plan, resctrl_writes};
use nri_config::Enforce;
use nri_spec::{changed, merge_resources};
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path};

/// The weight that a control group has when nobody gave it one.
const DEFAULT_WEIGHT: u64 = 100;

/// Lists of block I/O by device, and what in an entry takes it back.
const BY_DEVICE: [(&str, &str); 5] = [
    ("throttleReadBpsDevice", "rate"),
    ("throttleWriteBpsDevice", "rate"),
    ("throttleReadIOPSDevice", "rate"),
    ("throttleWriteIOPSDevice", "rate"),
    ("weightDevice", "weight"),
];

impl Keeper {
    /// Lays what plugins ask for over resources.
    ///
    /// # Errors
    /// A class that nothing defines.
    pub fn lay(
        &self,
        base: &Value,
        asked: &LinuxResources,
    ) -> Result<EffectiveResources, ClassError> {
        let mut resources = base.clone();
        merge_resources(&mut resources, asked);
        let classes = classes::Resolved::of(asked, &self.rules().classes.sources())?;
        let blockio_class = asked.blockio_class.as_ref().map(|c| c.value.clone());
        if blockio_class.is_some() {
            let class = classes.blockio.unwrap_or_else(|| json!({}));
            let before = base.get("blockIO").cloned().unwrap_or_default();
            if let Some(fields) = resources.as_object_mut() {
                fields.insert("blockIO".to_owned(), with_resets(&before, class));
            }
        }
        let closid =
            |rdt: Value| rdt.get("closID").and_then(Value::as_str).unwrap_or_default().to_owned();
        let rdt_class = asked.rdt_class.as_ref().map(|class| {
            let group = classes.rdt.map(closid).unwrap_or_default();
            (class.value.clone(), group)
        });
        Ok(EffectiveResources { resources, blockio_class, rdt_class })
    }

    /// Whether this host has control groups for what a runtime's `update` cannot set.
    ///
    /// # Errors
    /// Names what it has not.
    pub fn check_rest(
        &self,
        record: &Record,
        laid: &EffectiveResources,
    ) -> Result<(), ResourceError> {
        if let Some((class, group)) = laid.rdt_class.as_ref().filter(|(_, group)| !group.is_empty())
        {
            let (class, group) = (class.clone(), self.rules().classes.resctrl.join(group));
            if !group.is_dir() {
                return Err(ResourceError::NoRdtGroup { class, group });
            }
        }
        let rest = rest(&changed(&record.effective, &laid.resources));
        if rest.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(());
        }
        let place = record.cgroup().ok_or(ResourceError::UnknownCgroup)?;
        let Plan { writes, unsupported } = plan(&rest, &place);
        if !unsupported.is_empty() {
            return Err(ResourceError::NoController(unsupported));
        }
        let missing =
            |s: &&CgroupWrite| !s.is_optional && !s.files.iter().any(|file| file.exists());
        match writes.iter().find(missing) {
            Some(setting) => {
                let file = files::file(setting).unwrap_or(Path::new("")).to_owned();
                Err(ResourceError::NoControlFile { field: setting.field.clone(), file })
            }
            None => Ok(()),
        }
    }

    /// Makes the control groups hold what plugins set; what they still do not hold.
    ///
    /// `wanted`: the resources that are to be in force. What only the engine asked for is between
    /// it and its runtime.
    pub fn enforce(&self, record: &Record, wanted: &Value) -> Vec<Drift> {
        self.enforce_with(record, wanted, &Value::Null)
    }

    /// The same, and of whatever is in `more`, a part of the resources.
    pub fn enforce_with(&self, record: &Record, wanted: &Value, more: &Value) -> Vec<Drift> {
        if self.rules().enforce == Enforce::Off {
            return Vec::new();
        }
        let by_plugins = changed(&record.requested, wanted);
        let none = |part: &Value| part.as_object().is_none_or(serde_json::Map::is_empty);
        if none(&by_plugins) && none(more) && !record.has_owned_resources() {
            return Vec::new();
        }
        let Some(place) = record.cgroup() else {
            tracing::warn!(
                container = record.key.id,
                "its control groups are not known: nobody looks at them"
            );
            return Vec::new();
        };
        // Of all resources, since what a file holds may depend on several fields. What a plugin set
        // to the engine's value is a plugin's too: the runtime may remember another value.
        let named: BTreeSet<String> = [&by_plugins, more]
            .into_iter()
            .flat_map(|part| plan(part, &place).writes)
            .map(|s| s.field)
            .collect();
        let mut plan = plan(wanted, &place).writes;
        plan.retain(|s| {
            named.contains(&s.field) || owners::owner(&record.owners, &s.field).is_some()
        });
        let drift = files::enforce(&plan);
        for drift in &drift {
            tracing::error!(container = record.key.id, %drift, "not effective");
        }
        drift
    }

    /// As [`Keeper::enforce`], with the policy: nothing is wrong where it is only to be reported.
    ///
    /// # Errors
    /// What is not in force.
    pub fn enforce_strictly(&self, record: &Record, wanted: &Value) -> Result<(), ResourceError> {
        let drift = self.enforce(record, wanted);
        if drift.is_empty() || self.rules().enforce != Enforce::Strict {
            return Ok(());
        }
        Err(ResourceError::NotEffective(drift))
    }

    /// Moves the container's threads into a group of resctrl; an empty one means the root's.
    ///
    /// # Errors
    /// A thread that is still there cannot be moved.
    pub fn move_to_rdt_group(&self, record: &Record, group: &str) -> Result<(), ResourceError> {
        let place = record.cgroup().ok_or(ResourceError::UnknownCgroup)?;
        let group = Some(group).filter(|g| !g.is_empty());
        // Threads that begin meanwhile are in their creators' group.
        for _ in 0..3 {
            let settings =
                resctrl_writes(&self.rules().classes.resctrl, group, &location::threads(&place));
            let left = files::enforce(&settings);
            let Some(first) = left.first() else { return Ok(()) };
            let alive = location::threads(&place);
            if !left
                .iter()
                .any(|drift| alive.iter().any(|thread| thread.to_string() == drift.wanted))
            {
                return Ok(());
            }
            tracing::debug!(%first, "a thread is to be moved again");
        }
        Err(ResourceError::RdtThreads { container: record.key.id.clone() })
    }
}

/// What of resources no runtime's `update` can set. Rules of devices are the runtimes', in version
/// 2 a program.
fn rest(resources: &Value) -> Value {
    let updatable = update_document(resources);
    let mut rest = resources.clone();
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("devices");
        for (group, taken) in updatable.as_object().into_iter().flatten() {
            if let (Some(Value::Object(fields)), Some(taken)) =
                (fields.get_mut(group), taken.as_object())
            {
                fields.retain(|name, _| !taken.contains_key(name));
            }
        }
        fields.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    rest
}

/// A class in place of what was there before: limits that it does not have are taken back.
fn with_resets(before: &Value, class: Value) -> Value {
    let mut after = class;
    for (list, value) in BY_DEVICE {
        let device = |entry: &Value| (entry.get("major").cloned(), entry.get("minor").cloned());
        let kept: Vec<_> =
            after.get(list).and_then(Value::as_array).into_iter().flatten().map(device).collect();
        let old = before.get(list).and_then(Value::as_array).into_iter().flatten();
        let gone = old.filter(|entry| !kept.contains(&device(entry)));
        let resets: Vec<Value> = gone
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
        resources::keeper::Rules,
        state::{registry::Registry, store::Store},
    };
    use nri_api::opt;
    use std::{fs, sync::Arc};

    /// A directory stands in for resctrl: no hardware that has RDT was at hand.
    #[test]
    fn an_rdt_class_is_a_group_whose_tasks_are_the_threads() {
        let dir = tempfile::tempdir().unwrap();
        let resctrl = dir.path().join("resctrl");
        fs::create_dir_all(resctrl.join("gold")).unwrap();
        for file in ["schemata", "tasks", "gold/tasks"] {
            fs::write(resctrl.join(file), "").unwrap();
        }
        let (registry, _) = Registry::load(Store::open(&dir.path().join("state")).unwrap());
        let config = nri_config::Config::default();
        let keeper = Keeper::new(Arc::new(registry), &config);
        let mut rules = Rules::of(&config);
        rules.classes.resctrl.clone_from(&resctrl);
        keeper.set_rules(rules);
        let asked = |class: &str| LinuxResources {
            rdt_class: opt(Some(class.to_owned())),
            ..Default::default()
        };
        let laid = keeper.lay(&json!({}), &asked("gold")).unwrap();
        assert_eq!(laid.rdt_class, Some(("gold".to_owned(), "gold".to_owned())));
        let out = keeper.lay(&json!({}), &asked("")).unwrap();
        assert_eq!(out.rdt_class, Some((String::new(), String::new())));
        let unknown = keeper.lay(&json!({}), &asked("lead")).unwrap_err().to_string();
        assert!(unknown.contains("unknown RDT class \"lead\""), "{unknown}");
        // Where threads are moved to, and by which write.
        let moved = resctrl_writes(&resctrl, Some("gold"), &[4711]);
        assert_eq!(files::enforce(&moved), []);
        assert_eq!(fs::read_to_string(resctrl.join("gold/tasks")).unwrap(), "4711");
        assert_eq!(files::enforce(&resctrl_writes(&resctrl, None, &[4711])), []);
        assert_eq!(fs::read_to_string(resctrl.join("tasks")).unwrap(), "4711");
    }

    #[test]
    fn the_rest_is_what_update_does_not_take() {
        let resources = json!({
            "memory": {"limit": 1, "swappiness": 5}, "cpu": {"shares": 2}, "devices": [{"allow": true}],
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}], "unified": {"memory.high": "1"},
            "blockIO": {"weight": 5, "throttleReadBpsDevice": []}
        });
        assert_eq!(
            rest(&resources),
            json!({
                "memory": {"swappiness": 5}, "hugepageLimits": [{"pageSize": "2MB", "limit": 1}],
                "blockIO": {"throttleReadBpsDevice": []}
            })
        );
        assert_eq!(rest(&json!({"cpu": {"shares": 2}})), json!({}));
    }

    #[test]
    fn a_class_takes_back_what_it_does_not_have() {
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
