//! Owners of a container's resource fields: the plugin that set a field last. A field that the
//! engine set last has no owner.

use nri_api::{
    FieldKind, NO_PARTITION, PARTITION, PARTITION_FILES, PluginId, RESOURCE_FIELDS, ResourceField,
    entry_name, field_kind, full_name,
    proto::{Field, FieldOwners, LinuxResources},
    set_by, undone_by,
};
use protobuf::Enum;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the plugin that owns the field `name`.
pub fn owner(owners: &FieldOwners, name: &str) -> Option<String> {
    let simple = |f: Field| owners.simple.get(&f.value()).cloned();
    let has_name = |field: &&ResourceField| {
        name == field.name || name.strip_prefix(field.name).is_some_and(|key| key.starts_with('['))
    };
    let field = RESOURCE_FIELDS.iter().find(has_name)?;
    let owned = field.owner?;
    if is_keyed(owned) {
        let key = name.get(field.name.len() + 1..)?.strip_suffix(']')?;
        return owners.compound.get(&owned.value())?.owners.get(key).cloned();
    }
    // In cgroup v2 one file holds quota and period, so the owner of the period also owns a quota
    // without an owner.
    simple(owned).or_else(|| if name == "cpu.quota" { simple(Field::CPUPeriod) } else { None })
}

/// Returns the name of a field, and the plugin that owns it, for messages.
pub fn with_owner(owners: &FieldOwners, name: &str) -> String {
    format!("{name}{}", set_by(owner(owners, name).as_deref()))
}

/// Returns the plugins that own any field, each once.
pub fn plugins(owners: &FieldOwners) -> BTreeSet<String> {
    by_field(owners).into_values().flatten().collect()
}

/// Returns the plugins that own a field or entry, by its name. A plugin that removed a value
/// counts, too.
pub fn by_field(owners: &FieldOwners) -> BTreeMap<String, Vec<String>> {
    let simple = owners.simple.iter().map(|(field, names)| (*field, None, names));
    let compound = owners.compound.iter().flat_map(|(field, keyed)| {
        keyed.owners.iter().map(move |(key, names)| (*field, Some(key.as_str()), names))
    });
    let named = simple.chain(compound).filter_map(|(field, key, names)| {
        let names = names.split(',').map(|name| name.trim_start_matches('-').to_owned());
        Some((full_name(Field::from_i32(field)?, key), names.collect()))
    });
    named.collect()
}

/// Returns the owners of the fields that a plugin sets.
pub fn of_plugin(resources: &LinuxResources, plugin: &str) -> FieldOwners {
    let mut owners = FieldOwners::default();
    for field in RESOURCE_FIELDS.iter().filter(|field| field.is_set(resources)) {
        let Some(owned) = field.owner else { continue };
        let keys: Vec<String> = match owned {
            Field::HugepageLimits => {
                resources.hugepage_limits.iter().map(|limit| limit.page_size.clone()).collect()
            }
            Field::CgroupsUnified => resources.unified.keys().cloned().collect(),
            _ => {
                owners.simple.insert(owned.value(), plugin.to_owned());
                continue;
            }
        };
        let keyed = owners.compound.entry(owned.value()).or_default();
        keyed.owners.extend(keys.into_iter().map(|key| (key, plugin.to_owned())));
    }
    owners
}

/// Removes the owners of the fields of `requested`, a part of `linux.resources` that the engine has
/// set.
pub fn release(owners: &mut FieldOwners, requested: &Value) {
    for field in RESOURCE_FIELDS.iter().filter(|field| !field.path.is_empty()) {
        let value = field.path.iter().try_fold(requested, |value, key| value.get(key));
        let (Some(value), Some(owned)) = (value.filter(|v| !v.is_null()), field.owner) else {
            continue;
        };
        if !is_keyed(owned) {
            owners.simple.remove(&owned.value());
        } else if let Some(keyed) = owners.compound.get_mut(&owned.value()) {
            keys(value).iter().for_each(|key| drop(keyed.owners.remove(key)));
        }
    }
}

/// Returns the fields that plugins own of `requested`, a part of `linux.resources` that the engine
/// wants to set, each with its owner.
pub fn replaced_by(owners: &FieldOwners, requested: &Value) -> Vec<(String, PluginId)> {
    let (mut left, mut replaced) = (owners.clone(), owners.clone());
    release(&mut left, requested);
    remove(&mut replaced, &left);
    let named = by_field(&replaced).into_iter().flat_map(|(field, plugins)| {
        let ids = plugins.into_iter().filter_map(|plugin| PluginId::from_file_name(&plugin).ok());
        ids.map(move |plugin| (field.clone(), plugin))
    });
    named.collect()
}

/// Removes what makes a container whose CPUs a plugin has set a partition, unless a plugin wants
/// it: see [`nri_api::undone_by`]. A container that may be one already becomes a usual one.
pub fn undo_partition(resources: &mut Value, before: &Value, owners: &FieldOwners) {
    let entry = |file: &str| entry_name("unified", file);
    let is_undone = |file: &str| {
        let is_owned = |field: &Field| has(owners, field.value(), None);
        undone_by(file).iter().any(is_owned) && owner(owners, &entry(file)).is_none()
    };
    let had = before.get("unified").and_then(|unified| unified.get(PARTITION)).is_some();
    let Some(unified) = resources.get_mut("unified").and_then(Value::as_object_mut) else { return };
    for file in PARTITION_FILES {
        if !is_undone(file) || !unified.contains_key(file) {
            continue;
        }
        if file == PARTITION && had {
            unified.insert(file.to_owned(), NO_PARTITION.into());
        } else {
            unified.shift_remove(file);
        }
    }
}

/// Whether a field has an owner for each key (page size, file name) instead of one owner.
fn is_keyed(field: Field) -> bool {
    field_kind(field) == Some(FieldKind::Compound)
}

/// Returns the names in `unified`, or the page sizes in `hugepageLimits`.
fn keys(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields.keys().cloned().collect(),
        Value::Array(limits) => {
            let size = |limit: &Value| limit.get("pageSize")?.as_str().map(str::to_owned);
            limits.iter().filter_map(size).collect()
        }
        _ => Vec::new(),
    }
}

/// Adds the owners of `new`; they replace the owners of the same fields.
pub fn merge(owners: &mut FieldOwners, new: &FieldOwners) {
    owners.simple.extend(new.simple.clone());
    for (field, keys) in &new.compound {
        owners.compound.entry(*field).or_default().owners.extend(keys.owners.clone());
    }
}

/// Whether a field, or one of its keys, has an owner.
pub fn has(owners: &FieldOwners, field: i32, key: Option<&str>) -> bool {
    match key {
        Some(key) => owners.compound.get(&field).is_some_and(|o| o.owners.contains_key(key)),
        None => owners.simple.contains_key(&field),
    }
}

/// Keeps the owners of some fields.
fn retain(owners: &mut FieldOwners, keep: impl Fn(i32, Option<&str>) -> bool) {
    owners.simple.retain(|field, _| keep(*field, None));
    owners.compound.retain(|field, keyed| {
        keyed.owners.retain(|key, _| keep(*field, Some(key)));
        !keyed.owners.is_empty()
    });
}

/// Removes the owners of the fields that `fields` has.
pub fn remove(owners: &mut FieldOwners, fields: &FieldOwners) {
    retain(owners, |field, key| !has(fields, field, key));
}

/// Keeps the owners of the fields that `fields` has.
pub fn keep(owners: &mut FieldOwners, fields: &FieldOwners) {
    retain(owners, |field, key| has(fields, field, key));
}

/// Sets the owners of the fields that `fields` has to those of `before`.
pub fn put_back(owners: &mut FieldOwners, fields: &FieldOwners, mut before: FieldOwners) {
    remove(owners, fields);
    keep(&mut before, fields);
    merge(owners, &before);
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::{opt, proto::HugepageLimit};
    use serde_json::json;

    #[test]
    fn a_field_has_the_owner_of_its_file_class_or_key() {
        let mut owners = FieldOwners::default();
        owners.simple.insert(Field::CPUPeriod.value(), "10-a".into());
        owners.simple.insert(Field::BlockioClass.value(), "20-b".into());
        let sizes = owners.compound.entry(Field::HugepageLimits.value()).or_default();
        sizes.owners.insert("2MB".into(), "30-c".into());
        for (field, expected) in [
            ("cpu.period", Some("10-a")),
            ("cpu.quota", Some("10-a")),
            ("cpu.shares", None),
            ("blockIO.throttleReadBpsDevice", Some("20-b")),
            ("hugepageLimits[2MB]", Some("30-c")),
            ("hugepageLimits[1GB]", None),
            ("resources.devices", None),
        ] {
            assert_eq!(owner(&owners, field).as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn a_container_whose_cpus_a_plugin_sets_is_no_partition() {
        let root =
            json!({"unified": {PARTITION: "root", "cpuset.cpus.exclusive": "1", "a.b": "2"}});
        let with = |partition: &str| json!({"unified": {PARTITION: partition, "a.b": "2"}});
        let own = |field: Field| {
            let mut owners = FieldOwners::default();
            owners.simple.insert(field.value(), "10-a".to_owned());
            owners
        };
        let mut wanted = own(Field::CPUSetCPUs);
        let unified = wanted.compound.entry(Field::CgroupsUnified.value()).or_default();
        unified.owners.insert(PARTITION.to_owned(), "20-b".to_owned());
        for (before, owners, expected) in [
            (json!({}), own(Field::CPUSetCPUs), json!({"unified": {"a.b": "2"}})),
            (json!({}), own(Field::CPUSetMems), json!({"unified": {"a.b": "2"}})),
            (root.clone(), own(Field::CPUSetCPUs), with("member")),
            (root.clone(), own(Field::MemLimit), root.clone()),
            (json!({}), wanted, with("root")),
        ] {
            let mut resources = root.clone();
            undo_partition(&mut resources, &before, &owners);
            assert_eq!(resources, expected, "{before} {owners:?}");
        }
    }

    #[test]
    fn fields_belong_to_the_plugin_that_set_them_last() {
        let mut resources = LinuxResources::new();
        resources.memory.mut_or_insert_default().limit = opt(Some(1));
        resources.cpu.mut_or_insert_default().cpus = "0".to_owned();
        resources.unified.insert("memory.high".to_owned(), "1".to_owned());
        let page_size = "2MB".to_owned();
        resources.hugepage_limits.push(HugepageLimit { page_size, limit: 1, ..Default::default() });
        let mut owners = of_plugin(&resources, "10-a");
        let of = |owners: &FieldOwners, field: &str| owner(owners, field);
        for field in ["memory.limit", "cpu.cpus", "unified[memory.high]", "hugepageLimits[2MB]"] {
            assert_eq!(of(&owners, field).as_deref(), Some("10-a"), "{field}");
        }
        assert_eq!(of(&owners, "memory.swap"), None);
        let requested = json!({"memory": {"limit": 2}, "cpu": {"shares": 2, "cpus": "1"}});
        let replaced = replaced_by(&owners, &requested);
        let replaced: Vec<_> = replaced.iter().map(|(f, p)| format!("{f} {p}")).collect();
        assert_eq!(replaced, ["cpu.cpus 10-a", "memory.limit 10-a"]);
        release(
            &mut owners,
            &serde_json::json!({"memory": {"limit": 2}, "unified": {"memory.high": "2"}}),
        );
        assert_eq!(of(&owners, "memory.limit"), None);
        assert_eq!(of(&owners, "unified[memory.high]"), None);
        assert_eq!(of(&owners, "cpu.cpus").as_deref(), Some("10-a"));
    }
}
