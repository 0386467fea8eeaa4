//! Changes of resources, each with the plugin that owns the field, for the audit log.

use crate::audit::ChangesByPlugin;
use nri_api::{
    Form, also_set_by,
    proto::{Field, FieldOwners},
    undone_by,
};
use nri_files::FieldChange;
use nri_spec::ChangedField;
use protobuf::Enum;
use serde_json::Value;
use std::collections::BTreeSet;

/// Returns the changes of `linux.resources`. Device rules are left out, because they cannot be
/// updated.
pub fn resource_changes(before: &Value, after: &Value, owners: &FieldOwners) -> ChangesByPlugin {
    let mut found = ChangesByPlugin::new();
    for change in nri_spec::resource_changes(before, after) {
        if change.row.form != Form::Appended {
            add(&mut found, owner_of(owners, &change).unwrap_or_default(), change);
        }
    }
    found
}

/// Adds a change of `plugin`.
pub fn add(changes: &mut ChangesByPlugin, plugin: String, change: ChangedField) {
    let field = change.name();
    let ChangedField { pointer: path, before, after, .. } = change;
    changes.entry(plugin).or_default().push(FieldChange { field, path, before, after });
}

/// Returns the plugin that owns a changed field or entry.
pub fn owner_of(owners: &FieldOwners, change: &ChangedField) -> Option<String> {
    let (field, key) = (change.row.owner?, change.key.as_deref());
    let undone = || undone_by(key?).iter().find_map(|field| owner(owners, *field, None));
    owner(owners, field, key)
        .or_else(|| owner(owners, also_set_by(field)?, key))
        .or_else(|| undone().filter(|_| field == Field::CgroupsUnified))
}

/// Returns the owner of a field, or of one of its keys.
pub fn owner(owners: &FieldOwners, field: Field, key: Option<&str>) -> Option<String> {
    let owner = match key {
        Some(key) => owners.compound.get(&field.value())?.owners.get(key)?,
        None => owners.simple.get(&field.value())?,
    };
    // A plugin that removed the value of another plugin is marked.
    Some(owner.strip_prefix('-').unwrap_or(owner).to_owned())
}

/// Returns all plugins that own a field.
pub fn owning_plugins(owners: &FieldOwners) -> BTreeSet<&str> {
    let keyed = owners.compound.values().flat_map(|keys| keys.owners.values());
    let plugins = owners.simple.values().chain(keyed).flat_map(|owner| owner.split(','));
    plugins.map(|plugin| plugin.trim_start_matches('-')).collect()
}

/// Returns all plugins that own a field, separated by commas.
pub fn all_owners(owners: &FieldOwners) -> String {
    owning_plugins(owners).into_iter().collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owners() -> FieldOwners {
        let mut owners = FieldOwners::default();
        owners.simple.insert(Field::MemLimit.value(), "10-a".into());
        owners.simple.insert(Field::MemSwapLimit.value(), "10-a".into());
        owners.simple.insert(Field::BlockioClass.value(), "20-b".into());
        let sizes = owners.compound.entry(Field::HugepageLimits.value()).or_default();
        sizes.owners.insert("2MB".into(), "20-b".into());
        let unified = owners.compound.entry(Field::CgroupsUnified.value()).or_default();
        unified.owners.insert("memory.high".into(), "10-a".into());
        owners
    }

    #[test]
    fn each_change_of_resources_has_its_plugin_or_none() {
        let before = json!({
            "memory": {"limit": 1, "swap": 2}, "cpu": {"shares": 5, "cpus": "0"}, "pids": null,
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}, {"pageSize": "1GB", "limit": 7}],
            "devices": [{"allow": false}],
        });
        let after = json!({
            "memory": {"limit": 3, "swap": 6}, "cpu": {"shares": 6, "cpus": "0"},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 9}, {"pageSize": "1GB", "limit": 7}],
            "unified": {"memory.high": "4", "io.x/y": "5"}, "blockIO": {"weight": 10},
            "devices": [{"allow": true}],
        });
        let changes = resource_changes(&before, &after, &owners());
        let texts = |plugin: &str| -> Vec<String> {
            let text = |c: &FieldChange| {
                let value = |v: &Option<Value>| v.as_ref().map_or("-".into(), Value::to_string);
                format!("{} {} {} {}", c.field, c.path, value(&c.before), value(&c.after))
            };
            changes.get(plugin).into_iter().flatten().map(text).collect()
        };
        assert_eq!(
            texts("10-a"),
            [
                "memory.limit /linux/resources/memory/limit 1 3",
                "memory.swap /linux/resources/memory/swap 2 6",
                "unified[memory.high] /linux/resources/unified/memory.high - \"4\"",
            ]
        );
        assert_eq!(
            texts("20-b"),
            [
                "hugepageLimits[2MB] /linux/resources/hugepageLimits/- \
                 {\"pageSize\":\"2MB\",\"limit\":1} {\"pageSize\":\"2MB\",\"limit\":9}",
                "blockIO.weight /linux/resources/blockIO/weight - 10",
            ]
        );
        assert_eq!(
            texts(""),
            [
                "cpu.shares /linux/resources/cpu/shares 5 6",
                "unified[io.x/y] /linux/resources/unified/io.x~1y - \"5\"",
            ]
        );
        assert!(resource_changes(&after, &after, &owners()).is_empty());
        assert_eq!(all_owners(&owners()), "10-a,20-b");
    }

    #[test]
    fn a_partition_is_removed_by_the_plugin_that_sets_cpus() {
        let mut owners = FieldOwners::default();
        owners.simple.insert(Field::CPUSetCPUs.value(), "10-a".into());
        let before = json!({"unified": {"cpuset.cpus.partition": "root", "a.b": "1"}});
        let changes = resource_changes(&before, &json!({"unified": {}}), &owners);
        let fields = |plugin: &str| -> Vec<String> {
            changes.get(plugin).into_iter().flatten().map(|change| change.field.clone()).collect()
        };
        assert_eq!(fields("10-a"), ["unified[cpuset.cpus.partition]"]);
        assert_eq!(fields(""), ["unified[a.b]"]);
    }
}
