//! `unified["cpu.idle"]` of plugins. The record has the entry, with the owner and the name that it
//! has in cgroup v2; in cgroup v1, the runtime gets the field `cpu.idle` in its place.
//!
//! An idle cgroup has no weight: the kernel refuses `cpu.shares` and `cpu.weight`, which runtimes
//! write before `cpu.idle`, in an update also those that runc has stored, and systemd ends the idle
//! state with a weight. Therefore runtimes get no shares in updates while the container is idle,
//! and runc gets 0, with which it forgets its own and writes none. Before they get others, `nrid`
//! ends that.

use crate::{
    host::runtime::LowLevelRuntime,
    resources::{
        enforce::write_fields, manager::ResourceManager, owners, versions::is_crun_or_youki,
    },
    state::record::Record,
};
use nri_api::proto::FieldOwners;
use nri_spec::{OciConfig, idle_entry, idle_entry_name, idle_entry_to_field, overlay, take_shares};
use serde_json::{Value, json};

/// What the runtime gets in an update of a container that plugins have made idle, or had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdleUpdate {
    is_idle: bool,
    /// Whether the cgroup is one of cgroup v1.
    is_v1: bool,
    /// Whether the runtime has shares of its own. crun refuses any beside `cpu.idle`.
    has_stored: bool,
}

impl ResourceManager {
    /// Makes an entry of a plugin in a `config.json` what runtimes take. In cgroup v1, the weight
    /// stays: a runtime that ignores the field needs it. In cgroup v2, some refuse both.
    pub fn set_idle_at_creation(&self, config: &mut OciConfig, owners: &FieldOwners) {
        let resources = config.value_mut().pointer_mut("/linux/resources");
        let Some(resources) = resources.filter(|_| is_owned(owners)) else { return };
        match idle_entry(resources) {
            Some(_) if self.has_cpu_v1() => idle_entry_to_field(resources),
            Some(1) => take_shares(resources),
            _ => {}
        }
    }

    /// Returns what the runtime gets in an update that has an entry of a plugin, or of a container
    /// that had one: runc keeps an entry that an update omits.
    pub fn idle_in_update(
        &self,
        runtime: &LowLevelRuntime,
        before: &Value,
        after: &Value,
        owners: &FieldOwners,
    ) -> Option<IdleUpdate> {
        let of_engine = after.pointer("/cpu/idle");
        let is_gone = idle_entry(before).is_some() && of_engine.is_none_or(Value::is_null);
        let entry = idle_entry(after).filter(|_| is_owned(owners));
        let idle = entry.or_else(|| is_gone.then_some(0))?;
        // runc also sets again what it has stored, crun and youki only what they are given.
        let has_stored = !is_crun_or_youki(&runtime.name());
        Some(IdleUpdate { is_idle: idle == 1, is_v1: self.has_cpu_v1(), has_stored })
    }
}

fn is_owned(owners: &FieldOwners) -> bool {
    owners::owner(owners, &idle_entry_name()).is_some()
}

/// Sets it in resources for the runtime's `update`.
pub fn set_idle(resources: &mut Value, idle: Option<IdleUpdate>) {
    let Some(IdleUpdate { is_idle, is_v1, has_stored }) = idle else { return };
    let value = u8::from(is_idle);
    if is_v1 {
        idle_entry_to_field(resources);
        overlay(resources, &json!({"cpu": {"idle": value}}));
    } else {
        overlay(resources, &json!({"unified": {"cpu.idle": value.to_string()}}));
    }
    if is_idle {
        take_shares(resources);
    }
    if is_idle && has_stored {
        overlay(resources, &json!({"cpu": {"shares": 0}}));
    }
}

/// Makes a cgroup one with a weight, before the runtime sets that. If this fails, so does the
/// runtime, and its error is reported.
pub fn end_idle(record: &Record, idle: Option<IdleUpdate>) {
    if idle.is_some_and(|idle| !idle.is_idle) {
        let entry = json!({"unified": {"cpu.idle": "0"}});
        let _drift = write_fields(record, &entry, &entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        audit::Audit,
        state::{record::EXAMPLE, registry::Registry, store::Store},
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

    fn update(is_idle: bool, is_v1: bool) -> Option<IdleUpdate> {
        Some(IdleUpdate { is_idle, is_v1, has_stored: true })
    }

    #[test]
    fn the_runtime_gets_the_field_in_cgroup_v1_and_no_weight_in_cgroup_v2() {
        let (v1, v2, none) = (manager(false), manager(true), FieldOwners::default());
        let runc = serde_json::from_str::<Record>(EXAMPLE).unwrap().runtime;
        let created = |manager: &ResourceManager, owners: &FieldOwners| {
            let config = json!({"ociVersion": "1.0.2", "linux": {"resources": entry("1")}});
            let mut config = OciConfig::from_value(config).unwrap();
            manager.set_idle_at_creation(&mut config, owners);
            config.resources().cloned().unwrap()
        };
        assert_eq!(created(&v1, &owned()), json!({"cpu": {"shares": 512, "idle": 1}}));
        assert_eq!(created(&v2, &owned()), json!({"unified": {"cpu.idle": "1"}}));
        // The engine's is refused by the runtime, as without nrid.
        assert_eq!(created(&v1, &none), entry("1"));
        for (before, after, owners, expected) in [
            (json!({}), entry("1"), owned(), Some(true)),
            (entry("1"), entry("0"), owned(), Some(false)),
            (entry("1"), json!({}), none.clone(), Some(false)),
            (entry("1"), json!({"cpu": {"idle": 1}}), none.clone(), None),
            (json!({}), entry("1"), none.clone(), None),
            (json!({}), json!({}), owned(), None),
        ] {
            for (manager, is_v1) in [(&v1, true), (&v2, false)] {
                let found = manager.idle_in_update(&runc, &before, &after, &owners);
                let expected = expected.and_then(|is_idle| update(is_idle, is_v1));
                assert_eq!(found, expected, "{before} {after}");
            }
        }
    }

    #[test]
    fn the_runtime_gets_no_shares_of_an_idle_container() {
        let pids = json!({"pids": {"limit": 7}});
        for (resources, idle, expected) in [
            (entry("1"), update(true, true), json!({"cpu": {"shares": 0, "idle": 1}})),
            (entry("0"), update(false, true), json!({"cpu": {"shares": 512, "idle": 0}})),
            (pids.clone(), update(false, true), json!({"pids": {"limit": 7}, "cpu": {"idle": 0}})),
            (json!({}), update(true, true), json!({"cpu": {"idle": 1, "shares": 0}})),
            (
                entry("1"),
                update(true, false),
                json!({"cpu": {"shares": 0}, "unified": {"cpu.idle": "1"}}),
            ),
            (entry("0"), update(false, false), entry("0")),
            (
                pids,
                update(false, false),
                json!({"pids": {"limit": 7}, "unified": {"cpu.idle": "0"}}),
            ),
            (
                entry("1"),
                Some(IdleUpdate { is_idle: true, is_v1: false, has_stored: false }),
                json!({"unified": {"cpu.idle": "1"}}),
            ),
            (entry("1"), None, entry("1")),
        ] {
            let mut sent = resources.clone();
            set_idle(&mut sent, idle);
            assert_eq!(sent, expected, "{resources}");
        }
    }
}
