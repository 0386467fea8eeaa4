//! Who owns which field of a container's resources, by the fields' names in the OCI document.

use nri_api::proto::{Field, FieldOwners};
use protobuf::Enum;
use serde_json::Value;

/// Fields of the resources that have one value, and who may own them.
const SIMPLE: [(&str, Field); 17] = [
    ("memory.limit", Field::MemLimit),
    ("memory.reservation", Field::MemReservation),
    ("memory.swap", Field::MemSwapLimit),
    ("memory.kernel", Field::MemKernelLimit),
    ("memory.kernelTCP", Field::MemTCPLimit),
    ("memory.swappiness", Field::MemSwappiness),
    ("memory.disableOOMKiller", Field::MemDisableOomKiller),
    ("memory.useHierarchy", Field::MemUseHierarchy),
    ("cpu.shares", Field::CPUShares),
    ("cpu.quota", Field::CPUQuota),
    ("cpu.period", Field::CPUPeriod),
    ("cpu.realtimeRuntime", Field::CPURealtimeRuntime),
    ("cpu.realtimePeriod", Field::CPURealtimePeriod),
    ("cpu.cpus", Field::CPUSetCPUs),
    ("cpu.mems", Field::CPUSetMems),
    ("pids.limit", Field::PidsLimit),
    ("blockIO", Field::BlockioClass),
];

/// Fields that have a value for each key.
const KEYED: [(&str, Field); 2] =
    [("hugepageLimits.", Field::HugepageLimits), ("unified.", Field::CgroupsUnified)];

/// The plugin that set a field, if one did.
pub fn owner(owners: &FieldOwners, field: &str) -> Option<String> {
    let simple = |f: Field| owners.simple.get(&f.value()).cloned();
    if let Some((prefix, keyed)) = KEYED.iter().find(|(prefix, _)| field.starts_with(prefix)) {
        return owners.compound.get(&keyed.value())?.owners.get(&field[prefix.len()..]).cloned();
    }
    let is = |name: &str| {
        field == name || field.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
    };
    let owner = SIMPLE.iter().find(|(name, _)| is(name)).and_then(|(_, f)| simple(*f));
    // In version 2 both are in one file.
    owner.or_else(|| if field == "cpu.quota" { simple(Field::CPUPeriod) } else { None })
}

/// Makes somebody the owner of all fields that are in `changed`, a part of `linux.resources`;
/// nobody: the engine, which is none.
pub fn pass_on(owners: &mut FieldOwners, changed: &Value, to: Option<&str>) {
    for (name, field) in SIMPLE {
        let pointer = format!("/{}", name.replace('.', "/"));
        if changed.pointer(&pointer).is_none_or(Value::is_null) {
            continue;
        }
        match to {
            Some(plugin) => drop(owners.simple.insert(field.value(), plugin.to_owned())),
            None => drop(owners.simple.remove(&field.value())),
        }
    }
    for (prefix, field) in KEYED {
        for key in keys(changed.get(prefix.trim_end_matches('.'))) {
            match to {
                Some(plugin) => {
                    let keyed = owners.compound.entry(field.value()).or_default();
                    keyed.owners.insert(key, plugin.to_owned());
                }
                None => {
                    if let Some(keyed) = owners.compound.get_mut(&field.value()) {
                        keyed.owners.remove(&key);
                    }
                }
            }
        }
    }
}

/// The names in `unified`, the page sizes in `hugepageLimits`.
fn keys(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        Some(Value::Array(limits)) => {
            let size = |limit: &Value| limit.get("pageSize")?.as_str().map(str::to_owned);
            limits.iter().filter_map(size).collect()
        }
        _ => Vec::new(),
    }
}

/// Takes over owners that a merge has found.
pub fn take_over(owners: &mut FieldOwners, new: &FieldOwners) {
    owners.simple.extend(new.simple.clone());
    for (field, keys) in &new.compound {
        owners.compound.entry(*field).or_default().owners.extend(keys.owners.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_of_fields() {
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
            ("hugepageLimits.2MB", Some("30-c")),
            ("hugepageLimits.1GB", None),
            ("devices", None),
        ] {
            assert_eq!(owner(&owners, field).as_deref(), expected, "{field}");
        }
    }

    #[test]
    fn fields_pass_to_who_set_them_last() {
        let mut owners = FieldOwners::default();
        let all = serde_json::json!({
            "memory": {"limit": 1, "swap": null}, "cpu": {"cpus": "0"}, "unified": {"memory.high": "1"},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 1}]
        });
        pass_on(&mut owners, &all, Some("10-a"));
        let of = |owners: &FieldOwners, field: &str| owner(owners, field);
        for field in ["memory.limit", "cpu.cpus", "unified.memory.high", "hugepageLimits.2MB"] {
            assert_eq!(of(&owners, field).as_deref(), Some("10-a"), "{field}");
        }
        assert_eq!(of(&owners, "memory.swap"), None);
        pass_on(
            &mut owners,
            &serde_json::json!({"memory": {"limit": 2}, "unified": {"memory.high": "2"}}),
            None,
        );
        assert_eq!(of(&owners, "memory.limit"), None);
        assert_eq!(of(&owners, "unified.memory.high"), None);
        assert_eq!(of(&owners, "cpu.cpus").as_deref(), Some("10-a"));
    }
}
