//! Table of the fields, and the choice of the fields that this host supports.

use crate::device::device;
use crate::field::{Field, Part, Shape, join};
use nri_integration::*;
use serde_json::Value;
use std::fs;

use Part::{After, Rate, Whole, Word};
use Shape::{BlockioClass, Hugepages, Plain, Unified, Wrapped};

/// All resources of the protocol except RDT, which needs special hardware, and kernel memory, which
/// current kernels do not limit. The arguments of [`field`] are documented at the fields of
/// [`Field`].
///
/// Any values of different fields can be combined: each memory limit is below each limit of memory
/// plus swap, and each realtime runtime is below the realtime runtime of the parent cgroup.
#[rustfmt::skip]
const FIELDS: &[Field] = &[
    field("memory.limit", Wrapped("memory", "limit", "limit"),
        ("memory", "memory.limit_in_bytes", "memory.max"), Whole, true,
        &["67108864", "100663296", "71303168", "92274688", "75497472", "88080384", "79691776"]),
    field("memory.swap", Wrapped("memory", "swap", "swap"),
        ("memory", "memory.memsw.limit_in_bytes", "memory.swap.max"), Whole, true,
        &["268435456", "301989888", "272629760", "297795584",
            "276824064", "293601280", "281018368"]),
    field("memory.reservation", Wrapped("memory", "reservation", "reservation"),
        ("memory", "memory.soft_limit_in_bytes", "memory.low"), Whole, true,
        &["33554432", "20971520", "25165824", "29360128", "16777216", "12582912", "8388608"]),
    field("memory.swappiness", Wrapped("memory", "swappiness", "swappiness"),
        ("memory", "memory.swappiness", ""), Whole, false,
        &["50", "11", "22", "33", "44", "55", "66"]),
    field("memory.disableOOMKiller", Wrapped("memory", "disableOOMKiller", "disableOomKiller"),
        ("memory", "memory.oom_control", ""), After("oom_kill_disable"), false,
        &["false", "true"]),
    field("cpu.shares", Wrapped("cpu", "shares", "shares"),
        ("cpu", "cpu.shares", "cpu.weight"), Whole, true,
        &["512", "1024", "2048", "256", "4096", "1536", "3072"]),
    field("cpu.quota", Wrapped("cpu", "quota", "quota"),
        ("cpu", "cpu.cfs_quota_us", "cpu.max"), Word(0), true,
        &["50000", "25000", "30000", "35000", "40000", "45000", "20000"]),
    field("cpu.period", Wrapped("cpu", "period", "period"),
        ("cpu", "cpu.cfs_period_us", "cpu.max"), Word(1), true,
        &["100000", "200000", "150000", "120000", "180000", "110000", "190000"]),
    field("cpu.realtimePeriod", Wrapped("cpu", "realtimePeriod", "realtimePeriod"),
        ("cpu", "cpu.rt_period_us", ""), Whole, true,
        &["1000000", "900000", "800000", "950000", "850000", "700000", "750000"]),
    field("cpu.realtimeRuntime", Wrapped("cpu", "realtimeRuntime", "realtimeRuntime"),
        ("cpu", "cpu.rt_runtime_us", ""), Whole, true,
        &["1000", "2000", "3000", "1500", "2500", "1200", "2200"]),
    field("cpu.cpus", Plain("cpu", "cpus"), ("cpuset", "cpuset.cpus", "cpuset.cpus"), Whole, true,
        &["\"0\"", "\"1\"", "\"0-1\""]),
    field("cpu.mems", Plain("cpu", "mems"), ("cpuset", "cpuset.mems", "cpuset.mems"), Whole, true,
        &["\"0\""]),
    field("pids.limit", Plain("pids", "limit"), ("pids", "pids.max", "pids.max"), Whole, true,
        &["50", "61", "72", "83", "94", "105", "116"]),
    field("hugepageLimits", Hugepages("2MB"),
        ("hugetlb", "hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"), Whole, false,
        &["4194304", "8388608", "6291456", "10485760", "2097152", "12582912", "14680064"]),
    field("blockIO.weight", Wrapped("blockIO", "weight", ""),
        ("blkio", "blkio.bfq.weight", "io.bfq.weight"), Whole, true,
        &["300", "400", "500", "600", "700", "800", "900"]),
    field("blockioClass", BlockioClass,
        ("blkio", "blkio.throttle.read_bps_device", "io.max"), Rate, false,
        &["\"1048576\"", "\"2097152\"", "\"3145728\"", "\"4194304\"",
            "\"5242880\"", "\"6291456\"", "\"7340032\""]),
    field("unified", Unified("memory.high"), ("", "", "memory.high"), Whole, true,
        &["\"58720256\"", "\"62914560\"", "\"54525952\"", "\"50331648\"",
            "\"46137344\"", "\"41943040\"", "\"37748736\""]),
];

const fn field(
    name: &'static str,
    shape: Shape,
    file: (&'static str, &'static str, &'static str),
    part: Part,
    updatable: bool,
    values: &'static [&'static str],
) -> Field {
    Field { name, shape, file, part, values, updatable }
}

/// Returns the field of the table with this name.
pub(crate) fn named(name: &str) -> &'static Field {
    FIELDS.iter().find(|f| f.name == name).expect("the field is in the table")
}

/// Returns the fields that the kernel, the runtime and this machine support. Reports all other
/// fields as limitations of `test`.
pub(crate) fn available_fields(node: &Node, test: &str) -> Vec<&'static Field> {
    let id = node.id("files");
    node.create(&node.bundle(&id).make(), &id).success();
    let one_cpu = std::thread::available_parallelism().is_ok_and(|n| n.get() < 2);
    let is_available = |field: &&Field| {
        let reason = if field.read(node, &id).is_none() {
            "the kernel has no file for the field"
        } else if field.name == "blockIO.weight" && node.runtime().name == "crun" && !is_cgroup_v2()
        {
            "crun before 1.8.2 does not support the weight file of the BFQ scheduler"
        } else if field.name.starts_with("cpu.realtime") && !try_allow_realtime(node, &id) {
            "other cgroups use all realtime bandwidth"
        } else if field.name == "cpu.cpus" && one_cpu {
            "this machine has one CPU"
        } else {
            return true;
        };
        limitation(&format!("{test}: {} ({})", field.name, node.runtime().name), reason);
        false
    };
    let fields = FIELDS.iter().filter(is_available).collect();
    node.call(&["delete", "--force", &id]).success();
    fields
}

/// Returns the resources that the engine requests at the creation: the first value of each field.
pub(crate) fn initial_resources(fields: &[&Field]) -> Value {
    join(fields.iter().map(|f| f.resources(&f.value(0))))
}

/// Gives the parent cgroup 20 ms of realtime runtime, more than any value of the table. Returns
/// whether the kernel allows it.
fn try_allow_realtime(node: &Node, id: &str) -> bool {
    let dir = node.cgroup_dir(id, "cpu");
    dir.parent().is_some_and(|parent| fs::write(parent.join("cpu.rt_runtime_us"), "20000").is_ok())
}

/// Gives the parent cgroup of a node's containers this realtime runtime, if the kernel allows it.
/// The containers' realtime runtimes together cannot exceed the realtime runtime of the parent.
pub(crate) fn allow_realtime(node: &Node, id: &str, microseconds: u32) {
    let file = node
        .cgroup_dir(id, "cpu")
        .parent()
        .expect("the cgroup has a parent")
        .join("cpu.rt_runtime_us");
    if try_allow_realtime(node, id) {
        fs::write(&file, microseconds.to_string())
            .unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    }
}

/// Configures a block I/O class for each value of the field `blockioClass`.
pub(crate) fn configure_classes(node: &Node) {
    let Some((disk, _)) = device() else { return };
    let class = |value: &&str| {
        let name = value.trim_matches('"');
        format!("  \"{name}\":\n  - Devices: [{disk}]\n    ThrottleReadBps: \"{name}\"\n")
    };
    let classes: String = named("blockioClass").values.iter().map(class).collect();
    fs::write(node.path("blockio.yaml"), format!("Classes:\n{classes}"))
        .expect("the test directory is writable");
    node.configure(&format!("blockio.config_file = {:?}", node.path("blockio.yaml")));
}
