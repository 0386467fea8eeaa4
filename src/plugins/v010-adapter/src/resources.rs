//! Resources of NRI as `linux.resources` of the OCI runtime specification, which NRI v0.1 has.

use nri_plugin::proto::LinuxResources;
use serde_json::{Map, Value, json};

/// Inserts the fields of a message that are set.
macro_rules! insert_set {
    ($object:ident, $message:ident, $($field:ident => $name:literal),* $(,)?) => {$(
        if let Some(field) = $message.$field.as_ref() {
            $object.insert($name.to_owned(), field.value.into());
        }
    )*};
}

/// Returns the resources; null if there are none. `cpu` and `memory` are always there, as
/// upstream's conversion has them.
pub(crate) fn oci_resources(resources: Option<&LinuxResources>) -> Value {
    let Some(resources) = resources else { return Value::Null };
    let mut oci = Map::new();
    let devices = resources.devices.iter().map(|rule| {
        let mut device = Map::new();
        device.insert("allow".to_owned(), rule.allow.into());
        insert_text(&mut device, "type", &rule.type_);
        insert_set!(device, rule, major => "major", minor => "minor");
        insert_text(&mut device, "access", &rule.access);
        Value::Object(device)
    });
    insert_list(&mut oci, "devices", devices.collect());
    let mut memory = Map::new();
    if let Some(limits) = resources.memory.as_ref() {
        insert_set!(memory, limits,
            limit => "limit", reservation => "reservation", swap => "swap", kernel => "kernel",
            kernel_tcp => "kernelTCP", swappiness => "swappiness",
            disable_oom_killer => "disableOOMKiller", use_hierarchy => "useHierarchy",
        );
    }
    oci.insert("memory".to_owned(), memory.into());
    let mut cpu = Map::new();
    if let Some(limits) = resources.cpu.as_ref() {
        insert_set!(cpu, limits,
            shares => "shares", quota => "quota", period => "period",
            realtime_runtime => "realtimeRuntime", realtime_period => "realtimePeriod",
        );
        insert_text(&mut cpu, "cpus", &limits.cpus);
        insert_text(&mut cpu, "mems", &limits.mems);
    }
    oci.insert("cpu".to_owned(), cpu.into());
    if let Some(pids) = resources.pids.as_ref() {
        oci.insert("pids".to_owned(), json!({"limit": pids.limit}));
    }
    let hugepages = resources.hugepage_limits.iter();
    let hugepages =
        hugepages.map(|limit| json!({"pageSize": limit.page_size, "limit": limit.limit}));
    insert_list(&mut oci, "hugepageLimits", hugepages.collect());
    if !resources.unified.is_empty() {
        let mut files: Vec<_> = resources.unified.iter().collect();
        files.sort();
        let files =
            files.into_iter().map(|(file, value)| (file.clone(), Value::from(value.as_str())));
        oci.insert("unified".to_owned(), files.collect());
    }
    oci.into()
}

fn insert_text(object: &mut Map<String, Value>, name: &str, text: &str) {
    if !text.is_empty() {
        object.insert(name.to_owned(), text.into());
    }
}

fn insert_list(object: &mut Map<String, Value>, name: &str, values: Vec<Value>) {
    if !values.is_empty() {
        object.insert(name.to_owned(), values.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::{
        opt,
        proto::{HugepageLimit, LinuxCPU, LinuxDeviceCgroup, LinuxMemory, LinuxPids},
    };

    #[test]
    fn resources_have_the_names_of_the_oci_specification() {
        assert_eq!(oci_resources(None), Value::Null);
        assert_eq!(oci_resources(Some(&LinuxResources::new())), json!({"memory": {}, "cpu": {}}));
        let memory = LinuxMemory {
            limit: opt(Some(-1)),
            reservation: opt(Some(2)),
            swap: opt(Some(3)),
            kernel: opt(Some(4)),
            kernel_tcp: opt(Some(5)),
            swappiness: opt(Some(0)),
            disable_oom_killer: opt(Some(false)),
            use_hierarchy: opt(Some(true)),
            ..Default::default()
        };
        let cpu = LinuxCPU {
            shares: opt(Some(2)),
            quota: opt(Some(-1)),
            period: opt(Some(3)),
            realtime_runtime: opt(Some(4)),
            realtime_period: opt(Some(5)),
            cpus: "0-1".into(),
            mems: "0".into(),
            ..Default::default()
        };
        let rule = LinuxDeviceCgroup { allow: false, access: "rwm".into(), ..Default::default() };
        let device = LinuxDeviceCgroup {
            allow: true,
            type_: "c".into(),
            major: opt(Some(1)),
            minor: opt(Some(0)),
            ..Default::default()
        };
        let hugepages = HugepageLimit { page_size: "2MB".into(), limit: 7, ..Default::default() };
        let resources = LinuxResources {
            memory: Some(memory).into(),
            cpu: Some(cpu).into(),
            devices: vec![rule, device],
            pids: Some(LinuxPids { limit: 9, ..Default::default() }).into(),
            hugepage_limits: vec![hugepages],
            unified: [("memory.high".to_owned(), "1".to_owned())].into(),
            ..Default::default()
        };
        let expected = json!({
            "devices": [
                {"allow": false, "access": "rwm"},
                {"allow": true, "type": "c", "major": 1, "minor": 0}
            ],
            "memory": {
                "limit": -1, "reservation": 2, "swap": 3, "kernel": 4, "kernelTCP": 5,
                "swappiness": 0, "disableOOMKiller": false, "useHierarchy": true
            },
            "cpu": {
                "shares": 2, "quota": -1, "period": 3, "realtimeRuntime": 4,
                "realtimePeriod": 5, "cpus": "0-1", "mems": "0"
            },
            "pids": {"limit": 9},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 7}],
            "unified": {"memory.high": "1"}
        });
        assert_eq!(oci_resources(Some(&resources)), expected);
    }
}
