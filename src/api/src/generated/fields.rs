// @generated from the messages by the test packed_fields.

use crate::{
    field_table::{Field, Kind, Label},
    packed::{Fields, Packable},
    proto::*,
};

static CDIDEVICE: &[Field] = &[
    Field { number: 1, name: "name", original: "name", label: Label::One, kind: Kind::String },
];

static COMPOUND_FIELD_OWNERS: &[Field] = &[
    Field { number: 1, name: "owners", original: "owners", label: Label::MapOfString, kind: Kind::String },
];

static CONFIGURE_RESPONSE: &[Field] = &[
    Field { number: 2, name: "events", original: "events", label: Label::One, kind: Kind::Int32 },
    Field { number: 3, name: "failurePolicy", original: "failure_policy", label: Label::One, kind: Kind::Message(FAILURE_POLICY) },
];

static CONTAINER: &[Field] = &[
    Field { number: 1, name: "id", original: "id", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "podSandboxId", original: "pod_sandbox_id", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "name", original: "name", label: Label::One, kind: Kind::String },
    Field { number: 4, name: "state", original: "state", label: Label::One, kind: Kind::Enum(CONTAINER_STATE) },
    Field { number: 5, name: "labels", original: "labels", label: Label::MapOfString, kind: Kind::String },
    Field { number: 6, name: "annotations", original: "annotations", label: Label::MapOfString, kind: Kind::String },
    Field { number: 7, name: "args", original: "args", label: Label::Repeated, kind: Kind::String },
    Field { number: 8, name: "env", original: "env", label: Label::Repeated, kind: Kind::String },
    Field { number: 9, name: "mounts", original: "mounts", label: Label::Repeated, kind: Kind::Message(MOUNT) },
    Field { number: 10, name: "hooks", original: "hooks", label: Label::One, kind: Kind::Message(HOOKS) },
    Field { number: 11, name: "linux", original: "linux", label: Label::One, kind: Kind::Message(LINUX_CONTAINER) },
    Field { number: 12, name: "pid", original: "pid", label: Label::One, kind: Kind::Uint32 },
    Field { number: 13, name: "rlimits", original: "rlimits", label: Label::Repeated, kind: Kind::Message(POSIXRLIMIT) },
    Field { number: 14, name: "createdAt", original: "created_at", label: Label::One, kind: Kind::Int64 },
    Field { number: 15, name: "startedAt", original: "started_at", label: Label::One, kind: Kind::Int64 },
    Field { number: 16, name: "finishedAt", original: "finished_at", label: Label::One, kind: Kind::Int64 },
    Field { number: 17, name: "exitCode", original: "exit_code", label: Label::One, kind: Kind::Int32 },
    Field { number: 18, name: "statusReason", original: "status_reason", label: Label::One, kind: Kind::String },
    Field { number: 19, name: "statusMessage", original: "status_message", label: Label::One, kind: Kind::String },
    Field { number: 20, name: "CDIDevices", original: "CDI_devices", label: Label::Repeated, kind: Kind::Message(CDIDEVICE) },
    Field { number: 21, name: "user", original: "user", label: Label::One, kind: Kind::Message(USER) },
    Field { number: 22, name: "image", original: "image", label: Label::One, kind: Kind::Message(IMAGE) },
];

static CONTAINER_ADJUSTMENT: &[Field] = &[
    Field { number: 2, name: "annotations", original: "annotations", label: Label::MapOfString, kind: Kind::String },
    Field { number: 3, name: "mounts", original: "mounts", label: Label::Repeated, kind: Kind::Message(MOUNT) },
    Field { number: 4, name: "env", original: "env", label: Label::Repeated, kind: Kind::Message(KEY_VALUE) },
    Field { number: 5, name: "hooks", original: "hooks", label: Label::One, kind: Kind::Message(HOOKS) },
    Field { number: 6, name: "linux", original: "linux", label: Label::One, kind: Kind::Message(LINUX_CONTAINER_ADJUSTMENT) },
    Field { number: 7, name: "rlimits", original: "rlimits", label: Label::Repeated, kind: Kind::Message(POSIXRLIMIT) },
    Field { number: 8, name: "CDIDevices", original: "CDI_devices", label: Label::Repeated, kind: Kind::Message(CDIDEVICE) },
    Field { number: 9, name: "args", original: "args", label: Label::Repeated, kind: Kind::String },
];

static CONTAINER_EVICTION: &[Field] = &[
    Field { number: 1, name: "containerId", original: "container_id", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "reason", original: "reason", label: Label::One, kind: Kind::String },
];

static CONTAINER_STATE: &[(i32, &str)] = &[
    (0, "CONTAINER_UNKNOWN"),
    (1, "CONTAINER_CREATED"),
    (2, "CONTAINER_PAUSED"),
    (3, "CONTAINER_RUNNING"),
    (4, "CONTAINER_STOPPED"),
];

static CONTAINER_UPDATE: &[Field] = &[
    Field { number: 1, name: "containerId", original: "container_id", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "linux", original: "linux", label: Label::One, kind: Kind::Message(LINUX_CONTAINER_UPDATE) },
    Field { number: 3, name: "ignoreFailure", original: "ignore_failure", label: Label::One, kind: Kind::Bool },
];

static CREATE_CONTAINER_RESPONSE: &[Field] = &[
    Field { number: 1, name: "adjust", original: "adjust", label: Label::One, kind: Kind::Message(CONTAINER_ADJUSTMENT) },
    Field { number: 2, name: "update", original: "update", label: Label::Repeated, kind: Kind::Message(CONTAINER_UPDATE) },
    Field { number: 3, name: "evict", original: "evict", label: Label::Repeated, kind: Kind::Message(CONTAINER_EVICTION) },
];

static FAILURE_POLICY: &[Field] = &[
    Field { number: 1, name: "failRequest", original: "fail_request", label: Label::One, kind: Kind::Bool },
    Field { number: 2, name: "keepConnected", original: "keep_connected", label: Label::One, kind: Kind::Bool },
];

static FIELD_OWNERS: &[Field] = &[
    Field { number: 1, name: "simple", original: "simple", label: Label::MapOfInt32, kind: Kind::String },
    Field { number: 2, name: "compound", original: "compound", label: Label::MapOfInt32, kind: Kind::Message(COMPOUND_FIELD_OWNERS) },
];

static HOOK: &[Field] = &[
    Field { number: 1, name: "path", original: "path", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "args", original: "args", label: Label::Repeated, kind: Kind::String },
    Field { number: 3, name: "env", original: "env", label: Label::Repeated, kind: Kind::String },
    Field { number: 4, name: "timeout", original: "timeout", label: Label::One, kind: Kind::Message(OPTIONAL_INT) },
];

static HOOKS: &[Field] = &[
    Field { number: 1, name: "prestart", original: "prestart", label: Label::Repeated, kind: Kind::Message(HOOK) },
    Field { number: 2, name: "createRuntime", original: "create_runtime", label: Label::Repeated, kind: Kind::Message(HOOK) },
    Field { number: 3, name: "createContainer", original: "create_container", label: Label::Repeated, kind: Kind::Message(HOOK) },
    Field { number: 4, name: "startContainer", original: "start_container", label: Label::Repeated, kind: Kind::Message(HOOK) },
    Field { number: 5, name: "poststart", original: "poststart", label: Label::Repeated, kind: Kind::Message(HOOK) },
    Field { number: 6, name: "poststop", original: "poststop", label: Label::Repeated, kind: Kind::Message(HOOK) },
];

static HUGEPAGE_LIMIT: &[Field] = &[
    Field { number: 1, name: "pageSize", original: "page_size", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "limit", original: "limit", label: Label::One, kind: Kind::Uint64 },
];

static IMAGE: &[Field] = &[
    Field { number: 1, name: "name", original: "name", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "digest", original: "digest", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "configDigest", original: "config_digest", label: Label::One, kind: Kind::String },
];

static IOPRIO_CLASS: &[(i32, &str)] = &[
    (0, "IOPRIO_CLASS_NONE"),
    (1, "IOPRIO_CLASS_RT"),
    (2, "IOPRIO_CLASS_BE"),
    (3, "IOPRIO_CLASS_IDLE"),
];

static KEY_VALUE: &[Field] = &[
    Field { number: 1, name: "key", original: "key", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "value", original: "value", label: Label::One, kind: Kind::String },
];

static LINUX_CONTAINER: &[Field] = &[
    Field { number: 1, name: "namespaces", original: "namespaces", label: Label::Repeated, kind: Kind::Message(LINUX_NAMESPACE) },
    Field { number: 2, name: "devices", original: "devices", label: Label::Repeated, kind: Kind::Message(LINUX_DEVICE) },
    Field { number: 3, name: "resources", original: "resources", label: Label::One, kind: Kind::Message(LINUX_RESOURCES) },
    Field { number: 4, name: "oomScoreAdj", original: "oom_score_adj", label: Label::One, kind: Kind::Message(OPTIONAL_INT) },
    Field { number: 5, name: "cgroupsPath", original: "cgroups_path", label: Label::One, kind: Kind::String },
    Field { number: 6, name: "ioPriority", original: "io_priority", label: Label::One, kind: Kind::Message(LINUX_IOPRIORITY) },
    Field { number: 7, name: "seccompProfile", original: "seccomp_profile", label: Label::One, kind: Kind::Message(SECURITY_PROFILE) },
    Field { number: 8, name: "seccompPolicy", original: "seccomp_policy", label: Label::One, kind: Kind::Message(LINUX_SECCOMP) },
    Field { number: 9, name: "sysctl", original: "sysctl", label: Label::MapOfString, kind: Kind::String },
    Field { number: 10, name: "netDevices", original: "net_devices", label: Label::MapOfString, kind: Kind::Message(LINUX_NET_DEVICE) },
    Field { number: 11, name: "scheduler", original: "scheduler", label: Label::One, kind: Kind::Message(LINUX_SCHEDULER) },
    Field { number: 12, name: "rdt", original: "rdt", label: Label::One, kind: Kind::Message(LINUX_RDT) },
];

static LINUX_CONTAINER_ADJUSTMENT: &[Field] = &[
    Field { number: 1, name: "devices", original: "devices", label: Label::Repeated, kind: Kind::Message(LINUX_DEVICE) },
    Field { number: 2, name: "resources", original: "resources", label: Label::One, kind: Kind::Message(LINUX_RESOURCES) },
    Field { number: 3, name: "cgroupsPath", original: "cgroups_path", label: Label::One, kind: Kind::String },
    Field { number: 4, name: "oomScoreAdj", original: "oom_score_adj", label: Label::One, kind: Kind::Message(OPTIONAL_INT) },
    Field { number: 5, name: "ioPriority", original: "io_priority", label: Label::One, kind: Kind::Message(LINUX_IOPRIORITY) },
    Field { number: 6, name: "seccompPolicy", original: "seccomp_policy", label: Label::One, kind: Kind::Message(LINUX_SECCOMP) },
    Field { number: 7, name: "namespaces", original: "namespaces", label: Label::Repeated, kind: Kind::Message(LINUX_NAMESPACE) },
    Field { number: 8, name: "sysctl", original: "sysctl", label: Label::MapOfString, kind: Kind::String },
    Field { number: 9, name: "netDevices", original: "net_devices", label: Label::MapOfString, kind: Kind::Message(LINUX_NET_DEVICE) },
    Field { number: 10, name: "scheduler", original: "scheduler", label: Label::One, kind: Kind::Message(LINUX_SCHEDULER) },
    Field { number: 11, name: "rdt", original: "rdt", label: Label::One, kind: Kind::Message(LINUX_RDT) },
    Field { number: 12, name: "memoryPolicy", original: "memory_policy", label: Label::One, kind: Kind::Message(LINUX_MEMORY_POLICY) },
];

static LINUX_CONTAINER_UPDATE: &[Field] = &[
    Field { number: 1, name: "resources", original: "resources", label: Label::One, kind: Kind::Message(LINUX_RESOURCES) },
];

static LINUX_CPU: &[Field] = &[
    Field { number: 1, name: "shares", original: "shares", label: Label::One, kind: Kind::Message(OPTIONAL_UINT64) },
    Field { number: 2, name: "quota", original: "quota", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 3, name: "period", original: "period", label: Label::One, kind: Kind::Message(OPTIONAL_UINT64) },
    Field { number: 4, name: "realtimeRuntime", original: "realtime_runtime", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 5, name: "realtimePeriod", original: "realtime_period", label: Label::One, kind: Kind::Message(OPTIONAL_UINT64) },
    Field { number: 6, name: "cpus", original: "cpus", label: Label::One, kind: Kind::String },
    Field { number: 7, name: "mems", original: "mems", label: Label::One, kind: Kind::String },
];

static LINUX_DEVICE: &[Field] = &[
    Field { number: 1, name: "path", original: "path", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "type", original: "type", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "major", original: "major", label: Label::One, kind: Kind::Int64 },
    Field { number: 4, name: "minor", original: "minor", label: Label::One, kind: Kind::Int64 },
    Field { number: 5, name: "fileMode", original: "file_mode", label: Label::One, kind: Kind::Message(OPTIONAL_FILE_MODE) },
    Field { number: 6, name: "uid", original: "uid", label: Label::One, kind: Kind::Message(OPTIONAL_UINT32) },
    Field { number: 7, name: "gid", original: "gid", label: Label::One, kind: Kind::Message(OPTIONAL_UINT32) },
];

static LINUX_DEVICE_CGROUP: &[Field] = &[
    Field { number: 1, name: "allow", original: "allow", label: Label::One, kind: Kind::Bool },
    Field { number: 2, name: "type", original: "type", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "major", original: "major", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 4, name: "minor", original: "minor", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 5, name: "access", original: "access", label: Label::One, kind: Kind::String },
];

static LINUX_IOPRIORITY: &[Field] = &[
    Field { number: 1, name: "class", original: "class", label: Label::One, kind: Kind::Enum(IOPRIO_CLASS) },
    Field { number: 2, name: "priority", original: "priority", label: Label::One, kind: Kind::Int32 },
];

static LINUX_MEMORY: &[Field] = &[
    Field { number: 1, name: "limit", original: "limit", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 2, name: "reservation", original: "reservation", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 3, name: "swap", original: "swap", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 4, name: "kernel", original: "kernel", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 5, name: "kernelTcp", original: "kernel_tcp", label: Label::One, kind: Kind::Message(OPTIONAL_INT64) },
    Field { number: 6, name: "swappiness", original: "swappiness", label: Label::One, kind: Kind::Message(OPTIONAL_UINT64) },
    Field { number: 7, name: "disableOomKiller", original: "disable_oom_killer", label: Label::One, kind: Kind::Message(OPTIONAL_BOOL) },
    Field { number: 8, name: "useHierarchy", original: "use_hierarchy", label: Label::One, kind: Kind::Message(OPTIONAL_BOOL) },
];

static LINUX_MEMORY_POLICY: &[Field] = &[
    Field { number: 1, name: "mode", original: "mode", label: Label::One, kind: Kind::Enum(MPOL_MODE) },
    Field { number: 2, name: "nodes", original: "nodes", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "flags", original: "flags", label: Label::Repeated, kind: Kind::Enum(MPOL_FLAG) },
];

static LINUX_NAMESPACE: &[Field] = &[
    Field { number: 1, name: "type", original: "type", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "path", original: "path", label: Label::One, kind: Kind::String },
];

static LINUX_NET_DEVICE: &[Field] = &[
    Field { number: 1, name: "name", original: "name", label: Label::One, kind: Kind::String },
];

static LINUX_PIDS: &[Field] = &[
    Field { number: 1, name: "limit", original: "limit", label: Label::One, kind: Kind::Int64 },
];

static LINUX_POD_SANDBOX: &[Field] = &[
    Field { number: 1, name: "podOverhead", original: "pod_overhead", label: Label::One, kind: Kind::Message(LINUX_RESOURCES) },
    Field { number: 2, name: "podResources", original: "pod_resources", label: Label::One, kind: Kind::Message(LINUX_RESOURCES) },
    Field { number: 3, name: "cgroupParent", original: "cgroup_parent", label: Label::One, kind: Kind::String },
    Field { number: 4, name: "cgroupsPath", original: "cgroups_path", label: Label::One, kind: Kind::String },
    Field { number: 5, name: "namespaces", original: "namespaces", label: Label::Repeated, kind: Kind::Message(LINUX_NAMESPACE) },
    Field { number: 6, name: "resources", original: "resources", label: Label::One, kind: Kind::Message(LINUX_RESOURCES) },
];

static LINUX_RDT: &[Field] = &[
    Field { number: 1, name: "closId", original: "clos_id", label: Label::One, kind: Kind::Message(OPTIONAL_STRING) },
    Field { number: 2, name: "schemata", original: "schemata", label: Label::One, kind: Kind::Message(OPTIONAL_REPEATED_STRING) },
    Field { number: 3, name: "enableMonitoring", original: "enable_monitoring", label: Label::One, kind: Kind::Message(OPTIONAL_BOOL) },
    Field { number: 4, name: "remove", original: "remove", label: Label::One, kind: Kind::Bool },
];

static LINUX_RESOURCES: &[Field] = &[
    Field { number: 1, name: "memory", original: "memory", label: Label::One, kind: Kind::Message(LINUX_MEMORY) },
    Field { number: 2, name: "cpu", original: "cpu", label: Label::One, kind: Kind::Message(LINUX_CPU) },
    Field { number: 3, name: "hugepageLimits", original: "hugepage_limits", label: Label::Repeated, kind: Kind::Message(HUGEPAGE_LIMIT) },
    Field { number: 4, name: "blockioClass", original: "blockio_class", label: Label::One, kind: Kind::Message(OPTIONAL_STRING) },
    Field { number: 5, name: "rdtClass", original: "rdt_class", label: Label::One, kind: Kind::Message(OPTIONAL_STRING) },
    Field { number: 6, name: "unified", original: "unified", label: Label::MapOfString, kind: Kind::String },
    Field { number: 7, name: "devices", original: "devices", label: Label::Repeated, kind: Kind::Message(LINUX_DEVICE_CGROUP) },
    Field { number: 8, name: "pids", original: "pids", label: Label::One, kind: Kind::Message(LINUX_PIDS) },
];

static LINUX_SCHEDULER: &[Field] = &[
    Field { number: 1, name: "policy", original: "policy", label: Label::One, kind: Kind::Enum(LINUX_SCHEDULER_POLICY) },
    Field { number: 2, name: "nice", original: "nice", label: Label::One, kind: Kind::Int32 },
    Field { number: 3, name: "priority", original: "priority", label: Label::One, kind: Kind::Int32 },
    Field { number: 4, name: "flags", original: "flags", label: Label::Repeated, kind: Kind::Enum(LINUX_SCHEDULER_FLAG) },
    Field { number: 5, name: "runtime", original: "runtime", label: Label::One, kind: Kind::Uint64 },
    Field { number: 6, name: "deadline", original: "deadline", label: Label::One, kind: Kind::Uint64 },
    Field { number: 7, name: "period", original: "period", label: Label::One, kind: Kind::Uint64 },
];

static LINUX_SCHEDULER_FLAG: &[(i32, &str)] = &[
    (0, "SCHED_FLAG_RESET_ON_FORK"),
    (1, "SCHED_FLAG_RECLAIM"),
    (2, "SCHED_FLAG_DL_OVERRUN"),
    (3, "SCHED_FLAG_KEEP_POLICY"),
    (4, "SCHED_FLAG_KEEP_PARAMS"),
    (5, "SCHED_FLAG_UTIL_CLAMP_MIN"),
    (6, "SCHED_FLAG_UTIL_CLAMP_MAX"),
];

static LINUX_SCHEDULER_POLICY: &[(i32, &str)] = &[
    (0, "SCHED_NONE"),
    (1, "SCHED_OTHER"),
    (2, "SCHED_FIFO"),
    (3, "SCHED_RR"),
    (4, "SCHED_BATCH"),
    (5, "SCHED_ISO"),
    (6, "SCHED_IDLE"),
    (7, "SCHED_DEADLINE"),
];

static LINUX_SECCOMP: &[Field] = &[
    Field { number: 1, name: "defaultAction", original: "default_action", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "defaultErrno", original: "default_errno", label: Label::One, kind: Kind::Message(OPTIONAL_UINT32) },
    Field { number: 3, name: "architectures", original: "architectures", label: Label::Repeated, kind: Kind::String },
    Field { number: 4, name: "flags", original: "flags", label: Label::Repeated, kind: Kind::String },
    Field { number: 5, name: "listenerPath", original: "listener_path", label: Label::One, kind: Kind::String },
    Field { number: 6, name: "listenerMetadata", original: "listener_metadata", label: Label::One, kind: Kind::String },
    Field { number: 7, name: "syscalls", original: "syscalls", label: Label::Repeated, kind: Kind::Message(LINUX_SYSCALL) },
];

static LINUX_SECCOMP_ARG: &[Field] = &[
    Field { number: 1, name: "index", original: "index", label: Label::One, kind: Kind::Uint32 },
    Field { number: 2, name: "value", original: "value", label: Label::One, kind: Kind::Uint64 },
    Field { number: 3, name: "valueTwo", original: "value_two", label: Label::One, kind: Kind::Uint64 },
    Field { number: 4, name: "op", original: "op", label: Label::One, kind: Kind::String },
];

static LINUX_SYSCALL: &[Field] = &[
    Field { number: 1, name: "names", original: "names", label: Label::Repeated, kind: Kind::String },
    Field { number: 2, name: "action", original: "action", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "errnoRet", original: "errno_ret", label: Label::One, kind: Kind::Message(OPTIONAL_UINT32) },
    Field { number: 4, name: "args", original: "args", label: Label::Repeated, kind: Kind::Message(LINUX_SECCOMP_ARG) },
];

static MOUNT: &[Field] = &[
    Field { number: 1, name: "destination", original: "destination", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "type", original: "type", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "source", original: "source", label: Label::One, kind: Kind::String },
    Field { number: 4, name: "options", original: "options", label: Label::Repeated, kind: Kind::String },
];

static MPOL_FLAG: &[(i32, &str)] = &[
    (0, "MPOL_F_STATIC_NODES"),
    (1, "MPOL_F_RELATIVE_NODES"),
    (2, "MPOL_F_NUMA_BALANCING"),
];

static MPOL_MODE: &[(i32, &str)] = &[
    (0, "MPOL_DEFAULT"),
    (1, "MPOL_PREFERRED"),
    (2, "MPOL_BIND"),
    (3, "MPOL_INTERLEAVE"),
    (4, "MPOL_LOCAL"),
    (5, "MPOL_PREFERRED_MANY"),
    (6, "MPOL_WEIGHTED_INTERLEAVE"),
];

static OPTIONAL_BOOL: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::Bool },
];

static OPTIONAL_FILE_MODE: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::Uint32 },
];

static OPTIONAL_INT: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::Int64 },
];

static OPTIONAL_INT64: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::Int64 },
];

static OPTIONAL_REPEATED_STRING: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::Repeated, kind: Kind::String },
];

static OPTIONAL_STRING: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::String },
];

static OPTIONAL_UINT32: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::Uint32 },
];

static OPTIONAL_UINT64: &[Field] = &[
    Field { number: 1, name: "value", original: "value", label: Label::One, kind: Kind::Uint64 },
];

static POD_SANDBOX: &[Field] = &[
    Field { number: 1, name: "id", original: "id", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "name", original: "name", label: Label::One, kind: Kind::String },
    Field { number: 3, name: "uid", original: "uid", label: Label::One, kind: Kind::String },
    Field { number: 4, name: "namespace", original: "namespace", label: Label::One, kind: Kind::String },
    Field { number: 5, name: "labels", original: "labels", label: Label::MapOfString, kind: Kind::String },
    Field { number: 6, name: "annotations", original: "annotations", label: Label::MapOfString, kind: Kind::String },
    Field { number: 7, name: "runtimeHandler", original: "runtime_handler", label: Label::One, kind: Kind::String },
    Field { number: 8, name: "linux", original: "linux", label: Label::One, kind: Kind::Message(LINUX_POD_SANDBOX) },
    Field { number: 9, name: "pid", original: "pid", label: Label::One, kind: Kind::Uint32 },
    Field { number: 10, name: "ips", original: "ips", label: Label::Repeated, kind: Kind::String },
];

static POSIXRLIMIT: &[Field] = &[
    Field { number: 1, name: "type", original: "type", label: Label::One, kind: Kind::String },
    Field { number: 2, name: "hard", original: "hard", label: Label::One, kind: Kind::Uint64 },
    Field { number: 3, name: "soft", original: "soft", label: Label::One, kind: Kind::Uint64 },
];

static POST_CREATE_CONTAINER_RESPONSE: &[Field] = &[
];

static POST_START_CONTAINER_RESPONSE: &[Field] = &[
];

static POST_UPDATE_CONTAINER_RESPONSE: &[Field] = &[
];

static POST_UPDATE_POD_SANDBOX_RESPONSE: &[Field] = &[
];

static PROFILE_TYPE: &[(i32, &str)] = &[
    (0, "RUNTIME_DEFAULT"),
    (1, "UNCONFINED"),
    (2, "LOCALHOST"),
];

static REMOVE_CONTAINER_RESPONSE: &[Field] = &[
];

static REMOVE_POD_SANDBOX_RESPONSE: &[Field] = &[
];

static RUN_POD_SANDBOX_RESPONSE: &[Field] = &[
];

static SECURITY_PROFILE: &[Field] = &[
    Field { number: 1, name: "profileType", original: "profile_type", label: Label::One, kind: Kind::Enum(PROFILE_TYPE) },
    Field { number: 2, name: "localhostRef", original: "localhost_ref", label: Label::One, kind: Kind::String },
];

static START_CONTAINER_RESPONSE: &[Field] = &[
];

static STOP_CONTAINER_RESPONSE: &[Field] = &[
    Field { number: 1, name: "update", original: "update", label: Label::Repeated, kind: Kind::Message(CONTAINER_UPDATE) },
];

static STOP_POD_SANDBOX_RESPONSE: &[Field] = &[
];

static SYNCHRONIZE_RESPONSE: &[Field] = &[
    Field { number: 1, name: "update", original: "update", label: Label::Repeated, kind: Kind::Message(CONTAINER_UPDATE) },
    Field { number: 2, name: "more", original: "more", label: Label::One, kind: Kind::Bool },
];

static UPDATE_CONTAINERS_RESPONSE: &[Field] = &[
    Field { number: 1, name: "failed", original: "failed", label: Label::Repeated, kind: Kind::Message(CONTAINER_UPDATE) },
];

static UPDATE_CONTAINER_RESPONSE: &[Field] = &[
    Field { number: 1, name: "update", original: "update", label: Label::Repeated, kind: Kind::Message(CONTAINER_UPDATE) },
    Field { number: 2, name: "evict", original: "evict", label: Label::Repeated, kind: Kind::Message(CONTAINER_EVICTION) },
];

static UPDATE_POD_SANDBOX_RESPONSE: &[Field] = &[
];

static USER: &[Field] = &[
    Field { number: 1, name: "uid", original: "uid", label: Label::One, kind: Kind::Uint32 },
    Field { number: 2, name: "gid", original: "gid", label: Label::One, kind: Kind::Uint32 },
    Field { number: 3, name: "additionalGids", original: "additional_gids", label: Label::Repeated, kind: Kind::Uint32 },
];

static VALIDATE_CONTAINER_ADJUSTMENT_RESPONSE: &[Field] = &[
    Field { number: 1, name: "reject", original: "reject", label: Label::One, kind: Kind::Bool },
    Field { number: 2, name: "reason", original: "reason", label: Label::One, kind: Kind::String },
];

impl Packable for Container {
    fn fields() -> Fields {
        Fields(CONTAINER)
    }
}

impl Packable for ContainerAdjustment {
    fn fields() -> Fields {
        Fields(CONTAINER_ADJUSTMENT)
    }
}

impl Packable for ContainerUpdate {
    fn fields() -> Fields {
        Fields(CONTAINER_UPDATE)
    }
}

impl Packable for FieldOwners {
    fn fields() -> Fields {
        Fields(FIELD_OWNERS)
    }
}

impl Packable for LinuxResources {
    fn fields() -> Fields {
        Fields(LINUX_RESOURCES)
    }
}

impl Packable for PodSandbox {
    fn fields() -> Fields {
        Fields(POD_SANDBOX)
    }
}

impl Packable for UpdateContainersResponse {
    fn fields() -> Fields {
        Fields(UPDATE_CONTAINERS_RESPONSE)
    }
}

impl Packable for ConfigureResponse {
    fn fields() -> Fields {
        Fields(CONFIGURE_RESPONSE)
    }
}

impl Packable for SynchronizeResponse {
    fn fields() -> Fields {
        Fields(SYNCHRONIZE_RESPONSE)
    }
}

impl Packable for RunPodSandboxResponse {
    fn fields() -> Fields {
        Fields(RUN_POD_SANDBOX_RESPONSE)
    }
}

impl Packable for UpdatePodSandboxResponse {
    fn fields() -> Fields {
        Fields(UPDATE_POD_SANDBOX_RESPONSE)
    }
}

impl Packable for PostUpdatePodSandboxResponse {
    fn fields() -> Fields {
        Fields(POST_UPDATE_POD_SANDBOX_RESPONSE)
    }
}

impl Packable for StopPodSandboxResponse {
    fn fields() -> Fields {
        Fields(STOP_POD_SANDBOX_RESPONSE)
    }
}

impl Packable for RemovePodSandboxResponse {
    fn fields() -> Fields {
        Fields(REMOVE_POD_SANDBOX_RESPONSE)
    }
}

impl Packable for CreateContainerResponse {
    fn fields() -> Fields {
        Fields(CREATE_CONTAINER_RESPONSE)
    }
}

impl Packable for PostCreateContainerResponse {
    fn fields() -> Fields {
        Fields(POST_CREATE_CONTAINER_RESPONSE)
    }
}

impl Packable for StartContainerResponse {
    fn fields() -> Fields {
        Fields(START_CONTAINER_RESPONSE)
    }
}

impl Packable for PostStartContainerResponse {
    fn fields() -> Fields {
        Fields(POST_START_CONTAINER_RESPONSE)
    }
}

impl Packable for UpdateContainerResponse {
    fn fields() -> Fields {
        Fields(UPDATE_CONTAINER_RESPONSE)
    }
}

impl Packable for PostUpdateContainerResponse {
    fn fields() -> Fields {
        Fields(POST_UPDATE_CONTAINER_RESPONSE)
    }
}

impl Packable for StopContainerResponse {
    fn fields() -> Fields {
        Fields(STOP_CONTAINER_RESPONSE)
    }
}

impl Packable for RemoveContainerResponse {
    fn fields() -> Fields {
        Fields(REMOVE_CONTAINER_RESPONSE)
    }
}

impl Packable for ValidateContainerAdjustmentResponse {
    fn fields() -> Fields {
        Fields(VALIDATE_CONTAINER_ADJUSTMENT_RESPONSE)
    }
}
