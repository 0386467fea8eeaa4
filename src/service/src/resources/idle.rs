//! `unified["cpu.idle"]` of plugins in cgroup v1. The record has the entry, with the owner and the
//! name that it has in cgroup v2; the runtime gets the field `cpu.idle` in its place.
//!
//! An idle cgroup has no weight: the kernel refuses its `cpu.shares`, which runtimes write before
//! `cpu.idle`, in an update also those that they have stored. Therefore they get the shares 0, with
//! which they write none, while the container is idle. Before they get others, `nrid` ends that.

use crate::{
    resources::{enforce::write_fields, manager::ResourceManager, owners},
    state::record::Record,
};
use nri_api::proto::FieldOwners;
use nri_spec::{OciConfig, idle_entry, idle_entry_name, idle_entry_to_field, overlay};
use serde_json::{Value, json};

impl ResourceManager {
    /// Turns the entry of a plugin in a `config.json` into the field, if containers are in cgroup
    /// v1.
    pub fn set_idle_at_creation(&self, config: &mut OciConfig, owners: &FieldOwners) {
        let resources = config.value_mut().pointer_mut("/linux/resources");
        let Some(resources) = resources.filter(|r| is_owned(owners) && idle_entry(r).is_some())
        else {
            return;
        };
        if self.has_cpu_v1() {
            idle_entry_to_field(resources);
        }
    }

    /// Returns the value of the field in an update; `None` if containers are in cgroup v2, or the
    /// update has no entry of a plugin. Where the entry is gone, the value is 0: runc keeps one
    /// that an update omits.
    pub fn idle_in_update(
        &self,
        before: &Value,
        after: &Value,
        owners: &FieldOwners,
    ) -> Option<u8> {
        let of_engine = after.pointer("/cpu/idle");
        let is_gone = idle_entry(before).is_some() && of_engine.is_none_or(Value::is_null);
        let entry = idle_entry(after).filter(|_| is_owned(owners));
        let idle = entry.or_else(|| is_gone.then_some(0))?;
        self.has_cpu_v1().then_some(idle)
    }
}

fn is_owned(owners: &FieldOwners) -> bool {
    owners::owner(owners, &idle_entry_name()).is_some()
}

/// Sets the field in resources for the runtime's `update`, in place of the entry.
pub fn set_idle(resources: &mut Value, idle: Option<u8>) {
    let Some(idle) = idle else { return };
    idle_entry_to_field(resources);
    let without_weight = json!({"cpu": {"idle": idle, "shares": 0}});
    let field = json!({"cpu": {"idle": idle}});
    overlay(resources, if idle == 0 { &field } else { &without_weight });
}

/// Makes a cgroup one with a weight, before the runtime sets that. If this fails, so does the
/// runtime, and its error is reported.
pub fn end_idle(record: &Record, idle: Option<u8>) {
    if idle == Some(0) {
        let entry = json!({"unified": {"cpu.idle": "0"}});
        let _drift = write_fields(record, &entry, &entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        state::{registry::Registry, store::Store},
    };
    use nri_api::proto::Field;
    use nri_spec::capability::HostCapabilities;
    use protobuf::Enum;
    use std::sync::Arc;

    fn manager(cgroup_v2: bool) -> ResourceManager {
        let dir = tempfile::tempdir().unwrap();
        let (registry, _) = Registry::load(Store::open(dir.path()).unwrap());
        let config = nri_config::Config::default();
        let manager = ResourceManager::new(Arc::new(registry), Audit::off(), &config);
        let controllers = ["cpu".to_owned()].into();
        let host = || HostCapabilities { cgroup_v2, controllers, ..Default::default() };
        manager.known_host.check(host, |_| Ok::<_, ()>(())).unwrap();
        manager
    }

    fn owned() -> FieldOwners {
        let mut owners = FieldOwners::default();
        let entries = owners.compound.entry(Field::CgroupsUnified.value()).or_default();
        entries.owners.insert("cpu.idle".to_owned(), "10-a".to_owned());
        owners
    }

    fn entry(text: &str) -> Value {
        json!({"cpu": {"shares": 512}, "unified": {"cpu.idle": text}})
    }

    #[test]
    fn the_runtime_gets_the_field_in_cgroup_v1_only() {
        let (v1, v2, none) = (manager(false), manager(true), FieldOwners::default());
        let created = |manager: &ResourceManager, owners: &FieldOwners| {
            let config = json!({"ociVersion": "1.0.2", "linux": {"resources": entry("1")}});
            let mut config = OciConfig::from_value(config).unwrap();
            manager.set_idle_at_creation(&mut config, owners);
            config.resources().cloned().unwrap()
        };
        assert_eq!(created(&v1, &owned()), json!({"cpu": {"shares": 512, "idle": 1}}));
        assert_eq!(created(&v2, &owned()), entry("1"));
        // The engine's is refused by the runtime, as without nrid.
        assert_eq!(created(&v1, &none), entry("1"));
        for (before, after, owners, expected) in [
            (json!({}), entry("1"), owned(), Some(1)),
            (entry("1"), entry("0"), owned(), Some(0)),
            (entry("1"), json!({}), none.clone(), Some(0)),
            (entry("1"), json!({"cpu": {"idle": 1}}), none.clone(), None),
            (json!({}), entry("1"), none.clone(), None),
            (json!({}), json!({}), owned(), None),
        ] {
            let text = format!("{before} {after}");
            assert_eq!(v1.idle_in_update(&before, &after, &owners), expected, "{text}");
            assert_eq!(v2.idle_in_update(&before, &after, &owners), None, "{text}");
        }
    }

    #[test]
    fn the_runtime_gets_no_shares_of_an_idle_container() {
        for (resources, idle, expected) in [
            (entry("1"), Some(1), json!({"cpu": {"shares": 0, "idle": 1}})),
            (entry("0"), Some(0), json!({"cpu": {"shares": 512, "idle": 0}})),
            (
                json!({"pids": {"limit": 7}}),
                Some(0),
                json!({"pids": {"limit": 7}, "cpu": {"idle": 0}}),
            ),
            (json!({}), Some(1), json!({"cpu": {"idle": 1, "shares": 0}})),
            (entry("1"), None, entry("1")),
        ] {
            let mut sent = resources.clone();
            set_idle(&mut sent, idle);
            assert_eq!(sent, expected, "{resources}");
        }
    }
}
