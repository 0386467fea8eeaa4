//! Tests of [`check`] with several runtimes, versions, cgroup versions and hosts.

use super::*;
use crate::oci_config::OciConfig;
use nri_api::proto::{CompoundFieldOwners, Field, FieldOwners};
use protobuf::Enum;
use serde_json::{Value, json};

/// Owners of some fields. The check attributes a field without an owner to 20-b, because edits of
/// its CDI device may have set the field.
fn owners() -> FieldOwners {
    let mut owners = FieldOwners::new();
    for field in [Field::LinuxSched, Field::MemSwappiness, Field::MemLimit, Field::BlockioClass] {
        owners.simple.insert(field.value(), "10-a".to_owned());
    }
    for (field, key, plugin) in [
        (Field::CdiDevices, "example.org/thing=all", "20-b"),
        (Field::Mounts, "/m", "10-a"),
        (Field::CgroupsUnified, "memory.high", "-30-c"),
        (Field::CgroupsUnified, "cpu.idle", "30-c"),
        (Field::HugepageLimits, "2MB", "30-c"),
    ] {
        let compound: &mut CompoundFieldOwners = owners.compound.entry(field.value()).or_default();
        compound.owners.insert(key.to_owned(), plugin.to_owned());
    }
    owners
}

/// A host with cgroup v1.
fn v1() -> HostCapabilities {
    let controllers = ["cpu", "cpuset", "memory", "pids", "io"].map(str::to_owned).into();
    HostCapabilities {
        controllers,
        files: ["blkio.bfq.weight".to_owned()].into(),
        kernel: (6, 1),
        ..HostCapabilities::default()
    }
}

/// A host with cgroup v2.
fn v2() -> HostCapabilities {
    HostCapabilities { cgroup_v2: true, files: ["io.weight".to_owned()].into(), ..v1() }
}

/// Checks the error for a changed OCI config with `runtime` (`NAME VERSION`). An empty `expected`
/// means no error.
fn check_change(
    before: Value,
    after: Value,
    runtime: &str,
    host: &HostCapabilities,
    expected: &str,
) {
    let config = |mut value: Value| {
        value["ociVersion"] = "1.2.0".into();
        OciConfig::from_value(value).unwrap()
    };
    let runtime = RuntimeVersion::parse(&runtime.replacen(' ', " version ", 1));
    let found = check(&config(before), &config(after.clone()), &owners(), &runtime, host);
    assert_eq!(found.err().map(|e| e.to_string()).unwrap_or_default(), expected, "{after}");
}

/// Checks the error for an adjustment that adds all of `after`.
fn check_new(after: Value, runtime: &str, host: &HostCapabilities, expected: &str) {
    check_change(json!({}), after, runtime, host, expected);
}

#[test]
fn support_depends_on_the_version() {
    let scheduler = json!({"process": {"scheduler": {"policy": "SCHED_BATCH"}}});
    let expected = "scheduler (set by plugin \"10-a\") \
        is not supported by runc 1.1.5: supported since 1.2.0-rc.1";
    check_new(scheduler.clone(), "runc 1.1.5+ds1", &v1(), expected);
    for supported in [
        "runc 1.2.0-rc.1",
        "runc 1.3.6",
        "crun 1.8.5",
        "youki 0.7.0",
        "runc unknown",
        "runsc 1",
        "",
    ] {
        check_new(scheduler.clone(), supported, &v1(), "");
    }
    check_change(scheduler.clone(), scheduler.clone(), "runc 1.1.5", &v1(), "");
    check_change(scheduler, json!({}), "runc 1.1.5", &v1(), "");
    let time = json!({"linux": {"namespaces": [{"type": "pid"}, {"type": "time"}]}});
    check_new(
        time,
        "crun 1.8.1",
        &v2(),
        "namespaces[time] (set by plugin \"20-b\") \
         is not supported by crun 1.8.1: supported since 1.8.4",
    );
}

#[test]
fn support_depends_on_the_version_of_cgroups() {
    let swappiness = json!({"linux": {"resources": {"memory": {"swappiness": 0, "limit": 1}}}});
    check_new(swappiness.clone(), "runc 1.1.5", &v1(), "");
    let expected = "memory.swappiness (set by plugin \"10-a\") \
        is not supported by runc 1.1.5: not available on cgroup v2";
    check_new(swappiness.clone(), "runc 1.1.5", &v2(), expected);
    check_change(swappiness.clone(), swappiness, "runc 1.1.5", &v2(), "");
    let unified = json!({"linux": {"resources": {"unified": {"memory.high": "1"}}}});
    check_new(unified.clone(), "crun 1.28", &v2(), "");
    let expected = "unified[memory.high] (set by plugin \"30-c\") \
        is not supported by crun 1.28.0: not available on cgroup v1";
    check_new(unified, "crun 1.28", &v1(), expected);
    let hierarchy =
        |flag: bool| json!({"linux": {"resources": {"memory": {"useHierarchy": flag}}}});
    check_new(hierarchy(true), "runc 1.3.6", &v2(), "");
    let expected = "memory.useHierarchy (set by plugin \"20-b\") \
        is not supported by runc 1.3.6: no version supports it";
    check_new(hierarchy(false), "runc 1.3.6", &v1(), expected);
    let oom = |flag: bool| json!({"linux": {"resources": {"memory": {"disableOOMKiller": flag}}}});
    check_new(oom(false), "runc 1.3.6", &v2(), "");
}

#[test]
fn support_depends_on_the_host() {
    let huge =
        json!({"linux": {"resources": {"hugepageLimits": [{"pageSize": "2MB", "limit": 0}]}}});
    let expected = "hugepageLimits[2MB] (set by plugin \"30-c\") \
        is not supported by runc 1.1.5: host has no cgroup controller hugetlb";
    check_new(huge.clone(), "runc 1.1.5", &v1(), expected);
    let mut host = v1();
    host.controllers.insert("hugetlb".to_owned());
    check_new(huge, "runc 1.1.5", &host, "");
    let pids = json!({"linux": {"resources": {"pids": {"limit": 7}}}});
    check_new(pids.clone(), "runc 1.1.5", &host, "");
    for (delegated, expected) in [
        (&["memory", "pids"][..], ""),
        (
            &["memory"][..],
            "pids.limit (set by plugin \"20-b\") is not supported by runc 1.1.5: cgroup controller \
             pids is not delegated to the user of the engine",
        ),
    ] {
        let delegated = delegated.iter().map(|name| (*name).to_owned()).collect();
        let host = HostCapabilities { delegated: Some(delegated), ..host.clone() };
        check_new(pids.clone(), "runc 1.1.5", &host, expected);
    }
    let class = json!({"linux": {"intelRdt": {"closID": "gold", "enableMonitoring": false}}});
    let expected = "rdt.closID (set by plugin \"20-b\") \
        is not supported by runc 1.1.5: resctrl is not mounted";
    check_new(class.clone(), "runc 1.1.5", &v1(), expected);
    host.resctrl = true;
    check_new(class, "runc 1.1.5", &host, "");
    let kernel = json!({"linux": {"resources": {"memory": {"kernel": 1}}}});
    let expected = "memory.kernel (set by plugin \"20-b\") \
        is not supported by crun 1.8.1: ignored by Linux since 5.16";
    check_new(kernel.clone(), "crun 1.8.1", &v1(), expected);
    check_new(kernel, "crun 1.8.1", &HostCapabilities { kernel: (4, 18), ..v1() }, "");
}

#[test]
fn weights_need_their_files() {
    let weight = json!({"linux": {"resources": {"blockIO": {"weight": 80, "weightDevice": []}}}});
    check_new(weight.clone(), "runc 1.1.5", &v1(), "");
    check_new(weight.clone(), "runc 1.1.5", &v2(), "");
    check_new(weight.clone(), "crun 1.8.2", &v1(), "");
    let expected = "blockIO.weight (set by plugin \"10-a\") \
        is not supported by crun 1.8.1: host has no cgroup file blkio.weight";
    check_new(weight, "crun 1.8.1", &v1(), expected);
    let device = json!({"linux": {"resources": {"blockIO": {"weightDevice": [{"major": 8,
        "minor": 0, "weight": 80}]}}}});
    let expected = "blockIO.weightDevice (set by plugin \"10-a\") \
        is not supported by runc 1.3.6: host has no cgroup file io.bfq.weight";
    check_new(device, "runc 1.3.6", &v2(), expected);
}

#[test]
fn idle_needs_its_file_and_a_value_of_it_on_cgroup_v1() {
    let idle = |text: &str| json!({"linux": {"resources": {"unified": {"cpu.idle": text}}}});
    let with_file = HostCapabilities { files: ["cpu.idle".to_owned()].into(), ..v1() };
    let refused = |lack: &str| {
        format!("unified[cpu.idle] (set by plugin \"30-c\") is not supported by runc 1.1.5: {lack}")
    };
    check_new(idle("1"), "runc 1.1.5", &with_file, "");
    check_new(idle("0\n"), "crun 1.28", &with_file, "");
    check_new(idle("1"), "runc 1.1.5", &v1(), &refused("host has no cgroup file cpu.idle"));
    let no_value = refused("on cgroup v1 the value is 0 or 1");
    check_new(idle("2"), "runc 1.1.5", &with_file, &no_value);
    // The kernel refuses it.
    check_new(idle("2"), "runc 1.1.5", &v2(), "");
    check_new(idle("1"), "runc 1.1.5", &v2(), "");
}

#[test]
fn mount_options_are_features() {
    let mount = |options: &[&str]| json!({"mounts": [{"destination": "/m", "options": options}]});
    check_new(mount(&["rbind", "rro", "ro", "nosymfollow", "tmpcopyup"]), "runc 1.1.5", &v1(), "");
    let expected = "mounts[/m] option \"idmap\" (set by plugin \"10-a\") \
        is not supported by runc 1.1.5: supported since 1.2.0-rc.1";
    check_new(mount(&["idmap"]), "runc 1.1.5", &v1(), expected);
    check_change(mount(&["idmap"]), mount(&["idmap"]), "runc 1.1.5", &v1(), "");
    let expected = "mounts[/m] option \"nosymfollow\" (set by plugin \"10-a\") \
        is not supported by crun 1.28.0: no version supports it";
    check_new(mount(&["nosymfollow"]), "crun 1.28", &v1(), expected);
}

#[test]
fn seccomp_flags_are_features() {
    let policy = json!({"linux": {"seccomp": {"defaultAction": "SCMP_ACT_ALLOW",
        "listenerPath": "/l",
        "flags": ["SECCOMP_FILTER_FLAG_LOG", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV",
            "SECCOMP_FILTER_FLAG_NEW"]}}});
    check_new(policy.clone(), "crun 1.28", &v1(), "");
    let expected = "seccomp flag SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (set by plugin \"20-b\") \
        is not supported by runc 1.3.6: supported since 1.5.0-rc.2";
    check_new(policy, "runc 1.3.6", &v1(), expected);
}

#[test]
fn all_unsupported_fields_are_named_even_if_no_plugin_owns_them() {
    let both = json!({"process": {"ioPriority": {"class": "IOPRIO_CLASS_BE"},
        "scheduler": {"policy": "SCHED_IDLE"}}});
    let config = OciConfig::from_value(both).unwrap();
    let before = OciConfig::from_value(json!({})).unwrap();
    let runtime = RuntimeVersion::parse("crun version 1.8.1");
    let error = check(&before, &config, &FieldOwners::new(), &runtime, &v2()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "scheduler is not supported by crun 1.8.1: supported since 1.8.5; io_priority is not \
         supported by crun 1.8.1: supported since 1.8.6"
    );
}

/// Sets the fields of features to values of a wrong type.
#[test]
fn values_of_a_wrong_type_request_no_feature() {
    for junk in [
        json!(null),
        json!(1),
        json!("x"),
        json!([1, null, "x"]),
        json!({"a": [], "type": 3, "options": [1]}),
    ] {
        let config = json!({"process": junk, "mounts": junk, "linux": {"namespaces": junk,
            "netDevices": null,
            "seccomp": junk, "intelRdt": null, "resources": {"memory": junk, "cpu": junk,
                "pids": junk, "blockIO": null, "unified": null}}});
        check_new(config, "runc 1.1.5", &v1(), "");
    }
}

#[test]
fn the_kernel_limits_swap_if_its_cgroups_have_the_file() {
    let with = |cgroup_v2, file: &str| {
        let files = [file.to_owned()].into();
        HostCapabilities { cgroup_v2, files, ..HostCapabilities::default() }.has_swap_accounting()
    };
    assert!(with(false, "memory.memsw.limit_in_bytes") && with(true, "memory.swap.max"));
    assert!(!with(false, "memory.swap.max") && !with(true, "memory.memsw.limit_in_bytes"));
}
