//! Changes of resources, each with the plugin that owns the field, for the audit log.

use crate::audit::ChangesByPlugin;
use nri_api::{
    RESOURCE_FIELDS, entry_name,
    proto::{Field, FieldOwners},
};
use nri_control::FieldChange;
use protobuf::Enum;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Key of a huge page limit.
const PAGE_SIZE: &str = "pageSize";

/// Returns the changes of `linux.resources`. The swap limit belongs to the plugin of the memory
/// limit that it follows. Device rules are left out, because they cannot be updated.
pub fn resource_changes(before: &Value, after: &Value, owners: &FieldOwners) -> ChangesByPlugin {
    let mut found = ChangesByPlugin::new();
    for row in RESOURCE_FIELDS {
        let (old, new) = (at(before, row.path), at(after, row.path));
        if row.path.is_empty() || old == new {
            continue;
        }
        let pointer = format!("/linux/resources/{}", row.path.join("/"));
        let by_key = match row.owner {
            Some(Field::HugepageLimits) => Some((field_entries(old), field_entries(new), true)),
            Some(Field::CgroupsUnified) => Some((map_entries(old), map_entries(new), false)),
            _ => None,
        };
        if let (Some((old, new, is_list)), Some(field)) = (by_key, row.owner) {
            for (key, old, new) in differences(old, new) {
                let path = if is_list { format!("{pointer}/-") } else { join(&pointer, &key) };
                let name = entry_name(row.name, &key);
                let owner = owner(owners, field, Some(&key)).unwrap_or_default();
                add(&mut found, owner, change(name, path, old, new));
            }
            continue;
        }
        let is_group = [old, new].into_iter().flatten().any(|v| v.is_object() || v.is_array());
        if is_group && row.path.len() == 1 {
            // The rows of the fields in it follow; device rules are left out.
            continue;
        }
        let of = |field| owner(owners, field, None);
        let owner = row.owner.and_then(of).or_else(|| match row.owner {
            Some(Field::MemSwapLimit) => of(Field::MemLimit),
            Some(Field::CPUQuota) => of(Field::CPUPeriod),
            _ => None,
        });
        let change = change(row.name.to_owned(), pointer, old, new);
        add(&mut found, owner.unwrap_or_default(), change);
    }
    found
}

/// Adds a change of `plugin`.
pub fn add(changes: &mut ChangesByPlugin, plugin: String, change: FieldChange) {
    changes.entry(plugin).or_default().push(change);
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

/// Returns all plugins that own a field, separated by commas.
pub fn all_owners(owners: &FieldOwners) -> String {
    let keyed = owners.compound.values().flat_map(|keys| keys.owners.values());
    let plugins = owners.simple.values().chain(keyed).flat_map(|owner| owner.split(','));
    let plugins: BTreeSet<_> = plugins.map(|plugin| plugin.trim_start_matches('-')).collect();
    plugins.into_iter().collect::<Vec<_>>().join(",")
}

/// Returns a change.
pub fn change(
    field: String,
    path: String,
    before: Option<&Value>,
    after: Option<&Value>,
) -> FieldChange {
    FieldChange { field, path, before: before.cloned(), after: after.cloned() }
}

/// Returns the value at a path; `None` for null, which means not set.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key)).filter(|value| !value.is_null())
}

/// Entries of a list or map, by key.
pub type KeyedValues<'a> = BTreeMap<String, &'a Value>;

/// Returns the entries of an object.
pub fn map_entries(map: Option<&Value>) -> KeyedValues<'_> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries.map(|(key, value)| (key.clone(), value)).collect()
}

/// Returns the entries of a list whose elements have this key.
pub fn list_entries<'a>(list: Option<&'a Value>, key: &str) -> KeyedValues<'a> {
    let elements = list.and_then(Value::as_array).into_iter().flatten();
    let keyed = |element: &'a Value| Some((element.get(key)?.as_str()?.to_owned(), element));
    elements.filter_map(keyed).collect()
}

fn field_entries(list: Option<&Value>) -> KeyedValues<'_> {
    list_entries(list, PAGE_SIZE)
}

/// A key with its value before and after.
pub type ValueDifference<'a> = (String, Option<&'a Value>, Option<&'a Value>);

/// Returns the keys whose values differ.
pub fn differences<'a>(
    mut before: KeyedValues<'a>,
    after: KeyedValues<'a>,
) -> Vec<ValueDifference<'a>> {
    let mut found = Vec::new();
    for (key, new) in after {
        let old = before.remove(&key);
        if old != Some(new) {
            found.push((key, old, Some(new)));
        }
    }
    found.extend(before.into_iter().map(|(key, old)| (key, Some(old), None)));
    found
}

/// Returns a JSON pointer with another key (RFC 6901).
pub fn join(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn owners() -> FieldOwners {
        let mut owners = FieldOwners::default();
        owners.simple.insert(Field::MemLimit.value(), "10-a".into());
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
}
