//! Tests of the writes planned for resources in cgroup v1, v2 and the hybrid layout.

#![allow(clippy::unwrap_used)]

use nri_cgroup::{CgroupDirs, CgroupWrite, Hierarchy, Plan};
use serde_json::{Value, json};
use std::path::Path;

/// Mount point of a hierarchy, and the options that name its controllers; cgroup v2 has none.
type Mounted = (&'static str, &'static str);

const V1: &[Mounted] = &[
    ("/cpu", "cpu,cpuacct"),
    ("/cpuset", "cpuset"),
    ("/memory", "memory"),
    ("/pids", "pids"),
    ("/blkio", "blkio"),
    ("/devices", "devices"),
];
const V2: &[Mounted] = &[("/2", "")];

fn hierarchies(mounted: &[Mounted]) -> Vec<Hierarchy> {
    let hierarchy = |(point, controllers): &(&str, &str)| {
        let fs_type = if controllers.is_empty() { "cgroup2" } else { "cgroup" };
        Hierarchy::of_mount(Path::new("/"), Path::new(point), fs_type, controllers)
    };
    mounted.iter().filter_map(hierarchy).collect()
}

fn dirs(mounts: &[Mounted], path: &str) -> CgroupDirs {
    CgroupDirs::of_path(&hierarchies(mounts), Path::new(path))
}

fn plan(mounts: &[Mounted], resources: &Value) -> Plan {
    nri_cgroup::plan(resources, &dirs(mounts, "/c"))
}

fn shown(mounts: &[Mounted], resources: &Value) -> Vec<String> {
    lines(&plan(mounts, resources))
}

/// Formats a line per write: field, files, texts, effective value; then the fields without a file.
fn lines(plan: &Plan) -> Vec<String> {
    let line = |write: &CgroupWrite| {
        let files: Vec<_> = write.files.iter().map(|f| f.to_str().unwrap()).collect();
        let optional = if write.is_optional { "?" } else { "" };
        format!(
            "{} {}{optional} <- {} = {}",
            write.field,
            files.join("|"),
            write.texts.join(";"),
            write.effective
        )
    };
    let unsupported = plan.unsupported.iter().map(|f| format!("{f} unsupported"));
    plan.writes.iter().map(line).chain(unsupported).collect()
}

#[track_caller]
fn check(resources: Value, v1: &[&str], v2: &[&str]) {
    assert_eq!(shown(V1, &resources), v1, "cgroup v1: {resources}");
    assert_eq!(shown(V2, &resources), v2, "cgroup v2: {resources}");
}

#[test]
fn an_entry_of_unified_decides_its_file() {
    let resources = json!({
        "memory": {"limit": 67108864, "reservation": 4096}, "pids": {"limit": 50},
        "cpu": {"quota": 20000, "period": 20000},
        "blockIO": {"throttleReadBpsDevice": [{"major": 8, "minor": 0, "rate": 5}]},
        "unified": {
            "memory.max": "33554432", "pids.max": "7", "cpu.max": "max 20000",
            "io.max": "8:16 rbps=9",
        },
    });
    assert_eq!(
        shown(V2, &resources),
        [
            "memory.reservation /2/c/memory.low <- 4096 = 4096",
            "blockIO.throttleReadBpsDevice /2/c/io.max <- 8:0 rbps=5 = 8:0 rbps=5",
            "unified[memory.max] /2/c/memory.max <- 33554432 = 33554432",
            "unified[pids.max] /2/c/pids.max <- 7 = 7",
            "unified[cpu.max] /2/c/cpu.max <- max 20000 = max 20000",
            "unified[io.max] /2/c/io.max <- 8:16 rbps=9 = 8:16 rbps=9",
        ]
    );
}

#[test]
fn a_container_below_a_scope_is_idle_in_both() {
    let resources = json!({"unified": {"cpu.idle": "1", "cpu.weight": "5"}});
    let plan = nri_cgroup::plan(&resources, &dirs(V2, "/c.scope/container").below_scope(1));
    assert_eq!(
        lines(&plan),
        [
            "unified[cpu.idle] /2/c.scope/cpu.idle <- 1 = 1",
            "unified[cpu.idle] /2/c.scope/container/cpu.idle <- 1 = 1",
            "unified[cpu.weight] /2/c.scope/container/cpu.weight <- 5 = 5",
        ]
    );
    let own = dirs(V2, "/c.scope");
    assert_eq!(own.clone().below_scope(0), own);
}

#[test]
fn cpu_resources_are_planned() {
    // Runtimes convert 512 shares to the weight 59 or 20 (see `controllers/weight.rs`).
    check(
        json!({"cpu": {"shares": 512, "quota": 20000, "period": 50000, "burst": 0, "idle": 0}}),
        &[
            "cpu.shares /cpu/c/cpu.shares <- 512 = 512",
            "cpu.period /cpu/c/cpu.cfs_period_us <- 50000 = 50000",
            "cpu.quota /cpu/c/cpu.cfs_quota_us <- 20000 = 20000",
            "cpu.burst /cpu/c/cpu.cfs_burst_us <- 0 = 0",
            "cpu.idle /cpu/c/cpu.idle <- 0 = 0",
        ],
        &[
            "cpu.shares /2/c/cpu.weight <- 59 = 59 or 20",
            "cpu.quota /2/c/cpu.max <- 20000 50000 = 20000 50000",
            "cpu.burst /2/c/cpu.max.burst <- 0 = 0",
            "cpu.idle /2/c/cpu.idle <- 0 = 0",
        ],
    );
    // A quota of -1 means no limit. An idle cgroup has no weight. In cgroup v2 there are no files
    // for realtime limits.
    check(
        json!({"cpu": {"quota": -1, "shares": 1024, "idle": 1, "realtimeRuntime": 5,
            "realtimePeriod": 9}}),
        &[
            "cpu.quota /cpu/c/cpu.cfs_quota_us <- -1 = -1",
            "cpu.idle /cpu/c/cpu.idle <- 1 = 1",
            "cpu.realtimePeriod /cpu/c/cpu.rt_period_us <- 9 = 9",
            "cpu.realtimeRuntime /cpu/c/cpu.rt_runtime_us <- 5 = 5",
        ],
        &[
            "cpu.quota /2/c/cpu.max <- max 100000 = max 100000",
            "cpu.idle /2/c/cpu.idle <- 1 = 1",
            "cpu.realtimePeriod unsupported",
            "cpu.realtimeRuntime unsupported",
        ],
    );
    // The entry counts, if both are there. It is the only one that cgroup v1 has a file for.
    check(
        json!({"cpu": {"shares": 512}, "unified": {"cpu.idle": "1", "cpu.weight": "5"}}),
        &["unified[cpu.idle] /cpu/c/cpu.idle <- 1 = 1", "unified[cpu.weight] unsupported"],
        &[
            "unified[cpu.idle] /2/c/cpu.idle <- 1 = 1",
            "unified[cpu.weight] /2/c/cpu.weight <- 5 = 5",
        ],
    );
    check(
        json!({"cpu": {"shares": 512}, "unified": {"cpu.idle": "0"}}),
        &[
            "cpu.shares /cpu/c/cpu.shares <- 512 = 512",
            "unified[cpu.idle] /cpu/c/cpu.idle <- 0 = 0",
        ],
        &[
            "cpu.shares /2/c/cpu.weight <- 59 = 59 or 20",
            "unified[cpu.idle] /2/c/cpu.idle <- 0 = 0",
        ],
    );
    check(
        json!({"cpu": {"cpus": "0-1", "mems": "0"}}),
        &["cpu.cpus /cpuset/c/cpuset.cpus <- 0-1 = 0-1", "cpu.mems /cpuset/c/cpuset.mems <- 0 = 0"],
        &["cpu.cpus /2/c/cpuset.cpus <- 0-1 = 0-1", "cpu.mems /2/c/cpuset.mems <- 0 = 0"],
    );
}

#[test]
fn memory_resources_are_planned() {
    check(
        json!({"memory": {"limit": 8192, "swap": 12288, "reservation": 4096, "swappiness": 0,
            "disableOOMKiller": true}}),
        &[
            "memory.limit /memory/c/memory.limit_in_bytes <- 8192 = 8192",
            "memory.swap /memory/c/memory.memsw.limit_in_bytes <- 12288 = 12288",
            "memory.reservation /memory/c/memory.soft_limit_in_bytes <- 4096 = 4096",
            "memory.swappiness /memory/c/memory.swappiness <- 0 = 0",
            "memory.disableOOMKiller /memory/c/memory.oom_control <- 1 = oom_kill_disable 1",
        ],
        &[
            "memory.limit /2/c/memory.max <- 8192 = 8192",
            "memory.swap /2/c/memory.swap.max <- 4096 = 4096",
            "memory.reservation /2/c/memory.low <- 4096 = 4096",
            "memory.swappiness unsupported",
            "memory.disableOOMKiller unsupported",
        ],
    );
    // cgroup v2 has no files for these flags, but always behaves as they request.
    check(
        json!({"memory": {"disableOOMKiller": false, "useHierarchy": true}}),
        &[
            "memory.disableOOMKiller /memory/c/memory.oom_control <- 0 = oom_kill_disable 0",
            "memory.useHierarchy /memory/c/memory.use_hierarchy <- 1 = 1",
        ],
        &[],
    );
    check(
        json!({"memory": {"useHierarchy": false}}),
        &["memory.useHierarchy /memory/c/memory.use_hierarchy <- 0 = 0"],
        &["memory.useHierarchy unsupported"],
    );
    check(
        json!({"memory": {"limit": -1, "swap": -1, "kernel": 7}}),
        &[
            "memory.limit /memory/c/memory.limit_in_bytes <- -1 = no limit",
            "memory.swap /memory/c/memory.memsw.limit_in_bytes <- -1 = no limit",
            "memory.kernel unsupported",
        ],
        &[
            "memory.limit /2/c/memory.max <- max = no limit",
            "memory.swap /2/c/memory.swap.max <- max = no limit",
            "memory.kernel unsupported",
        ],
    );
}

#[test]
fn pids_and_hugepage_limits_are_planned() {
    // `V1` has no hierarchy for hugetlb.
    check(
        json!({"pids": {"limit": -1}, "hugepageLimits": [{"pageSize": "2MB", "limit": 4194304},
            {"pageSize": "../x", "limit": 1}]}),
        &[
            "pids.limit /pids/c/pids.max <- max = max",
            "hugepageLimits[2MB] unsupported",
            "hugepageLimits[../x] unsupported",
        ],
        &[
            "pids.limit /2/c/pids.max <- max = max",
            "hugepageLimits[2MB] /2/c/hugetlb.2MB.max <- 4194304 = 4194304",
            "hugepageLimits[2MB] /2/c/hugetlb.2MB.rsvd.max? <- 4194304 = 4194304",
            "hugepageLimits[../x] unsupported",
        ],
    );
    // In this hybrid layout only cgroup v2 has hugetlb. The limit of 3 MiB is not a multiple of the
    // page size, so the kernel may round it down to 2 MiB.
    let hybrid = [V1, V2].concat();
    let resources =
        json!({"hugepageLimits": [{"pageSize": "2MB", "limit": 3145728}], "pids": {"limit": 9}});
    assert_eq!(
        shown(&hybrid, &resources),
        [
            "pids.limit /pids/c/pids.max <- 9 = 9",
            "hugepageLimits[2MB] /2/c/hugetlb.2MB.max <- 3145728 = 2097152 or 3145728",
            "hugepageLimits[2MB] /2/c/hugetlb.2MB.rsvd.max? <- 3145728 = 2097152 or 3145728",
        ]
    );
}

#[test]
fn block_io_resources_are_planned() {
    let device = |rate: u64| json!([{"major": 8, "minor": 0, "rate": rate}]);
    check(
        json!({"blockIO": {
            "weight": 500, "leafWeight": 300, "weightDevice": [{"major": 8, "minor": 16,
                "weight": 200}],
            "throttleReadBpsDevice": device(1024), "throttleWriteIOPSDevice": device(0)
        }}),
        &[
            "blockIO.weight /blkio/c/blkio.bfq.weight|/blkio/c/blkio.weight <- 500 = 500",
            "blockIO.leafWeight /blkio/c/blkio.leaf_weight <- 300 = 300",
            "blockIO.weightDevice /blkio/c/blkio.bfq.weight_device|/blkio/c/blkio.weight_device <- \
             8:16 200 = 8:16 200",
            "blockIO.throttleReadBpsDevice /blkio/c/blkio.throttle.read_bps_device <- 8:0 1024 = \
             8:0 1024",
            "blockIO.throttleWriteIOPSDevice /blkio/c/blkio.throttle.write_iops_device <- 8:0 0 = \
             8:0 ",
        ],
        &[
            "blockIO.weight /2/c/io.bfq.weight|/2/c/io.weight <- 500 = default 500 or 4950",
            "blockIO.weightDevice /2/c/io.bfq.weight|/2/c/io.weight <- 8:16 200 = 8:16 200",
            "blockIO.throttleReadBpsDevice /2/c/io.max <- 8:0 rbps=1024 = 8:0 rbps=1024",
            "blockIO.throttleWriteIOPSDevice /2/c/io.max <- 8:0 wiops=max = 8:0 wiops=max",
            "blockIO.leafWeight unsupported",
        ],
    );
}

#[test]
fn unified_and_device_resources_are_planned() {
    check(
        json!({"unified": {"memory.high": "4096", "cpu.max": "10 100\n", "../x": "1",
            "io.max": "8:0 rbps=5 wbps=6", "cgroup.kill": "1"}}),
        &[
            "unified[memory.high] unsupported",
            "unified[cpu.max] unsupported",
            "unified[../x] unsupported",
            "unified[io.max] unsupported",
            "unified[cgroup.kill] unsupported",
        ],
        &[
            "unified[memory.high] /2/c/memory.high <- 4096 = 4096",
            "unified[cpu.max] /2/c/cpu.max <- 10 100 = 10 100",
            "unified[io.max] /2/c/io.max <- 8:0 rbps=5 wbps=6 = 8:0 rbps=5",
            "unified[io.max] /2/c/io.max <-  = 8:0 wbps=6",
            "unified[../x] unsupported",
            "unified[cgroup.kill] unsupported",
        ],
    );
    // Rules for all devices are not checked; of several rules for one device the last counts.
    check(
        json!({"devices": [
            {"allow": false, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rw"},
            {"allow": true, "type": "c", "major": 1, "minor": 5, "access": "r"},
            {"allow": false, "type": "c", "major": 1, "minor": 5, "access": "rwm"},
            {"allow": true, "type": "b", "major": 8, "access": "m"}
        ]}),
        &[
            "resources.devices /devices/c/devices.list <-  = c 1:3 rw",
            "resources.devices /devices/c/devices.list <-  = b 8:* m",
        ],
        &[],
    );
}

#[test]
fn nulls_zeros_and_wrong_types_plan_no_write() {
    let resources = json!({
        "cpu": {"shares": 0, "quota": null, "cpus": "", "mems": null}, "memory": {"limit": 0,
            "swap": null},
        "pids": {"limit": 0}, "hugepageLimits": null, "blockIO": {"weight": 0,
            "weightDevice": null}, "unified": null,
        "devices": "x"
    });
    check(resources, &[], &[]);
}
