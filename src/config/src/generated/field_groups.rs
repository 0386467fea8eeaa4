//! The groups of fields.
// @generated from the table of fields of nri-api by the test `fields` of nri-tests.

/// Groups of fields that plugins can change: the fields of the protocol, `update` (of containers
/// other than the container of the event) and `evict`. `resources` stands for all `resources.…`,
/// except that allowing `resources` does not allow `resources.devices`. Annotations that change the
/// behaviour of runtimes, such as `org.systemd.property.…`, need `runtime_annotations`, too.
pub const FIELD_GROUPS: &[&str] = &[
    "annotations",
    "args",
    "cdi_devices",
    "cgroups_path",
    "devices",
    "env",
    "evict",
    "hooks",
    "io_priority",
    "memory_policy",
    "mounts",
    "namespaces",
    "net_devices",
    "oom_score_adj",
    "rdt",
    "resources",
    "resources.blockio_class",
    "resources.cpu",
    "resources.devices",
    "resources.hugepages",
    "resources.memory",
    "resources.pids",
    "resources.rdt_class",
    "resources.unified",
    "rlimits",
    "runtime_annotations",
    "scheduler",
    "seccomp",
    "sysctl",
    "update",
];
