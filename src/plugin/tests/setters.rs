//! Setters of adjustments and updates: each field of the protocol has one, and writes it once.

#![allow(clippy::unwrap_used)]

use nri_plugin::{Adjustment, Mistake, SetResources, Update, proto::*};
use protobuf::{
    Message, MessageDyn,
    reflect::{ReflectFieldRef, RuntimeFieldType, RuntimeType},
};

/// Messages that a plugin passes to a setter as a whole; their fields have no setters.
const WITHOUT_SETTERS: [&str; 9] = [
    "Mount",
    "KeyValue",
    "Hooks",
    "LinuxDevice",
    "LinuxSeccomp",
    "LinuxScheduler",
    "LinuxDeviceCgroup",
    "LinuxNetDevice",
    "LinuxMemoryPolicy",
];

/// Collects the paths of the fields that are not set.
fn unset(message: &dyn MessageDyn, path: &str, out: &mut Vec<String>) {
    let descriptor = message.descriptor_dyn();
    for field in descriptor.fields() {
        let path = format!("{path}/{}", field.name());
        let inner = match field.runtime_field_type() {
            RuntimeFieldType::Singular(RuntimeType::Message(m))
                if !WITHOUT_SETTERS.contains(&m.name()) =>
            {
                field.get_message(message)
            }
            _ => {
                let set = match field.get_reflect(message) {
                    ReflectFieldRef::Optional(_) => field.has_field(message),
                    ReflectFieldRef::Repeated(list) => !list.is_empty(),
                    ReflectFieldRef::Map(map) => !map.is_empty(),
                };
                if !set {
                    out.push(path);
                }
                continue;
            }
        };
        if !field.has_field(message) {
            out.push(path);
        } else if !inner.descriptor_dyn().name().starts_with("Optional") {
            unset(&*inner, &path, out);
        }
    }
}

fn set_all_resources(r: &mut impl SetResources) {
    r.set_memory_limit(1)
        .set_memory_reservation(2)
        .set_memory_swap(3)
        .set_memory_kernel(4)
        .set_memory_kernel_tcp(5)
        .set_memory_swappiness(6)
        .set_memory_disable_oom_killer(true)
        .set_memory_use_hierarchy(true)
        .set_cpu_shares(7)
        .set_cpu_quota(8)
        .set_cpu_period(9)
        .set_cpu_realtime_runtime(10)
        .set_cpu_realtime_period(11)
        .set_cpu_cpus("0")
        .set_cpu_mems("1")
        .add_hugepage_limit("2MB", 12)
        .set_blockio_class("b")
        .set_rdt_class("r")
        .add_unified("memory.high", "13")
        .add_device_rule(LinuxDeviceCgroup::new())
        .set_pids_limit(14);
}

fn everything() -> Adjustment {
    let mut a = Adjustment::new();
    a.add_annotation("a", "b")
        .remove_annotation("c")
        .add_mount(Mount { destination: "/n".into(), ..Default::default() })
        .remove_mount("/m")
        .add_env("A", "b")
        .remove_env("C")
        .add_hooks(Hooks { poststop: vec![Hook::new()], ..Default::default() })
        .add_rlimit("RLIMIT_CORE", 2, 1)
        .add_cdi_device("v/c=n")
        .override_args(["x"])
        .add_device(LinuxDevice { path: "/dev/n".into(), ..Default::default() })
        .remove_device("/dev/x")
        .set_cgroups_path("/c")
        .set_oom_score_adj(1)
        .set_io_priority(IOPrioClass::IOPRIO_CLASS_BE, 2)
        .set_seccomp_policy(LinuxSeccomp::new())
        .add_namespace("network", "/n")
        .remove_namespace("pid")
        .set_sysctl("s", "1")
        .remove_sysctl("t")
        .add_net_device("eth0", "e")
        .remove_net_device("eth1")
        .set_scheduler(LinuxScheduler::new())
        .set_rdt_clos_id("c")
        .set_rdt_schemata(["L3:0=f"])
        .set_rdt_enable_monitoring(true)
        .override_rdt()
        .set_memory_policy(MpolMode::MPOL_BIND, "0", [MpolFlag::MPOL_F_STATIC_NODES]);
    set_all_resources(&mut a);
    a
}

#[test]
fn every_field_of_the_protocol_has_a_setter() {
    let check = |message: &dyn MessageDyn, expect: &[&str]| {
        let mut missing = Vec::new();
        unset(message, "", &mut missing);
        missing.sort();
        assert_eq!(missing, expect);
    };
    let message = everything().build().unwrap();
    check(&message, &[]);
    let mut update = Update::new("id");
    set_all_resources(update.set_ignore_failure(true));
    check(&update.build().unwrap(), &[]);
    // The check itself must find fields that are not set.
    let mut incomplete = message;
    incomplete.args.clear();
    let linux = incomplete.linux.mut_or_insert_default();
    linux.rdt.mut_or_insert_default().remove = false;
    let resources = linux.resources.mut_or_insert_default();
    resources.cpu.mut_or_insert_default().quota = None.into();
    check(&incomplete, &["/args", "/linux/rdt/remove", "/linux/resources/cpu/quota"]);
}

#[test]
fn removals_have_a_leading_minus() {
    let a = everything().build().unwrap();
    assert_eq!(a.env[1].key, "-C");
    assert_eq!(a.mounts[1].destination, "-/m");
    assert_eq!(a.linux.devices[1].path, "-/dev/x");
    assert_eq!(a.linux.namespaces[1].type_, "-pid");
    assert!(a.annotations.contains_key("-c") && a.linux.sysctl.contains_key("-t"));
    assert!(a.linux.net_devices.contains_key("-eth1"));
    // An empty first argument replaces the arguments that an earlier plugin set.
    assert_eq!(a.args, ["", "x"]);
    let nothing = Adjustment::new().build().unwrap();
    assert_eq!(nothing.compute_size(), 0, "a new adjustment changes something");
}

#[test]
fn an_override_removes_and_sets() {
    let mut a = Adjustment::new();
    let device = LinuxDevice { path: "/dev/x".into(), ..Default::default() };
    a.override_annotation("a", "1")
        .override_mount(Mount { destination: "/m".into(), ..Default::default() })
        .override_env("E", "2")
        .override_device(device)
        .override_sysctl("s", "3")
        .override_net_device("eth0", "e");
    let a = a.build().unwrap();
    let keys: Vec<_> = a.env.iter().map(|e| e.key.as_str()).collect();
    assert_eq!(keys, ["-E", "E"]);
    let mounts: Vec<_> = a.mounts.iter().map(|m| m.destination.as_str()).collect();
    assert_eq!(mounts, ["-/m", "/m"]);
    let devices: Vec<_> = a.linux.devices.iter().map(|d| d.path.as_str()).collect();
    assert_eq!(devices, ["-/dev/x", "/dev/x"]);
    assert_eq!((&*a.annotations["a"], &*a.annotations["-a"]), ("1", ""));
    assert_eq!((&*a.linux.sysctl["s"], &*a.linux.sysctl["-s"]), ("3", ""));
    assert!(a.linux.net_devices.contains_key("-eth0"));
    assert_eq!(a.linux.net_devices["eth0"].name, "e");
}

#[test]
fn a_field_or_key_that_is_written_twice_is_a_mistake() {
    fn check(write: impl Fn(&mut Adjustment) -> &mut Adjustment, expect: Mistake) {
        let mut a = Adjustment::new();
        write(&mut a);
        assert_eq!(a.build(), Err(expect));
    }
    let twice = |name: &str| Mistake::Twice(name.into());
    check(|a| a.add_env("A", "1").add_env("A", "1"), twice("env[A]"));
    check(|a| a.add_env("A", "1").remove_env("A"), twice("env[A]"));
    check(|a| a.override_env("A", "1").add_env("A", "2"), twice("env[A]"));
    check(|a| a.remove_annotation("k").add_annotation("k", "v"), twice("annotations[k]"));
    check(|a| a.set_sysctl("s", "1").override_sysctl("s", "2"), twice("sysctl[s]"));
    check(|a| a.add_namespace("pid", "").remove_namespace("pid"), twice("namespaces[pid]"));
    check(|a| a.add_rlimit("R", 1, 1).add_rlimit("R", 2, 2), twice("rlimits[R]"));
    check(|a| a.set_args(["x"]).override_args(["y"]), twice("args"));
    check(|a| a.remove_rdt().set_rdt_clos_id("c"), twice("rdt.closID"));
    check(|a| a.set_memory_limit(1).set_memory_limit(1), twice("memory.limit"));
    check(|a| a.add_unified("f", "1").add_unified("f", "2"), twice("unified[f]"));
    check(|a| a.add_env("", "1"), Mistake::EmptyKey { field: "env" });
    check(|a| a.add_env("-A", "1"), Mistake::Removal("env[-A]".into()));
    // The first mistake is reported, and accumulating fields have none.
    check(
        |a| a.add_env("", "").set_args(["x"]).set_args(["x"]),
        Mistake::EmptyKey { field: "env" },
    );
    let mut a = Adjustment::new();
    a.add_hooks(Hooks::new()).add_hooks(Hooks::new()).override_rdt().set_rdt_clos_id("c");
    a.add_device_rule(LinuxDeviceCgroup::new()).add_device_rule(LinuxDeviceCgroup::new());
    a.add_env("A", "").add_env("B", "").remove_env("C");
    a.build().unwrap();
}
