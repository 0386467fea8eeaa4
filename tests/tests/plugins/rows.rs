//! The plugins that are compared, and how they differ on purpose.

use crate::{
    cgroup_pods, device_pods,
    difference::Difference,
    hook_pods, logger_pods, network_pods,
    pods::{self, Case},
    random::Random,
    rdt_pods, ulimit_pods, v010_pods,
};
use serde_json::Value;
use std::path::Path;

/// How a plugin is started.
pub(crate) enum Start {
    /// With its socket as a descriptor.
    Launched,
    /// With the path of a socket, to which it connects this many times.
    External { connections: usize },
}

/// A plugin.
pub(crate) struct Row {
    /// Name of upstream's program; ours is `nri-NAME`.
    pub(crate) name: &'static str,
    /// Name of the row.
    pub(crate) label: &'static str,
    pub(crate) start: Start,
    /// Returns the arguments of both programs; the directory is for files that they name.
    pub(crate) arguments: fn(&Path) -> Vec<String>,
    /// Configuration that the runtime sends.
    pub(crate) config: &'static str,
    /// Writes files that the programs find below `/`, in a directory in its place.
    pub(crate) files: Option<fn(&Path)>,
    /// Returns what a program did besides replying, from that directory.
    pub(crate) observed: fn(&Path) -> Vec<Value>,
    /// Generates a pod.
    pub(crate) pod: fn(&mut Random) -> Case,
    /// Whether some of the generated pods stay unchanged.
    pub(crate) spares: bool,
    /// Whether some of the generated pods are adjusted.
    pub(crate) adjusts: bool,
    /// Whether some of the generated pods are refused.
    pub(crate) refuses: bool,
    /// Differences on purpose.
    pub(crate) differences: &'static [Difference],
}

/// What most rows have.
const ROW: Row = Row {
    name: "",
    label: "",
    start: Start::Launched,
    arguments: |_| Vec::new(),
    config: "",
    files: None,
    observed: |_| Vec::new(),
    pod: pods::any,
    spares: true,
    adjusts: false,
    refuses: false,
    differences: &[],
};

/// All plugins.
pub(crate) const ROWS: &[Row] = &[
    Row { name: "logger", label: "logger", pod: logger_pods::any, ..ROW },
    Row {
        name: "logger",
        label: "logger with flags",
        arguments: |_| logger_pods::arguments(),
        pod: logger_pods::any,
        adjusts: true,
        ..ROW
    },
    Row {
        name: "logger",
        label: "logger with a configuration",
        config: logger_pods::CONFIG,
        pod: logger_pods::any,
        adjusts: true,
        ..ROW
    },
    Row {
        name: "differ",
        label: "differ",
        start: Start::External { connections: 3 },
        arguments: |_| ["-indices", "00,20,99", "-yaml"].map(String::from).to_vec(),
        ..ROW
    },
    Row { name: "network-logger", label: "network-logger", ..ROW },
    Row {
        name: "ulimit-adjuster",
        label: "ulimit-adjuster",
        pod: ulimit_pods::any,
        adjusts: true,
        refuses: true,
        differences: ulimit_pods::DIFFERENCES,
        ..ROW
    },
    Row {
        name: "writable-cgroups",
        label: "writable-cgroups with nsdelegate",
        arguments: |dir| cgroup_pods::arguments(dir, "rw,nsdelegate,memory_recursiveprot"),
        pod: cgroup_pods::any,
        adjusts: true,
        refuses: true,
        ..ROW
    },
    Row {
        name: "writable-cgroups",
        label: "writable-cgroups without nsdelegate",
        arguments: |dir| cgroup_pods::arguments(dir, "rw"),
        pod: cgroup_pods::any,
        ..ROW
    },
    Row {
        name: "device-injector",
        label: "device-injector",
        pod: device_pods::any,
        adjusts: true,
        refuses: true,
        differences: device_pods::DIFFERENCES,
        ..ROW
    },
    Row {
        name: "network-device-injector",
        label: "network-device-injector",
        pod: network_pods::any,
        refuses: true,
        differences: network_pods::DIFFERENCES,
        ..ROW
    },
    Row {
        name: "hook-injector",
        label: "hook-injector",
        files: Some(hook_pods::write),
        pod: hook_pods::any,
        // One of the definitions applies always.
        spares: false,
        adjusts: true,
        refuses: true,
        differences: hook_pods::DIFFERENCES,
        ..ROW
    },
    Row { name: "rdt", label: "rdt", pod: rdt_pods::any, adjusts: true, refuses: true, ..ROW },
    Row {
        name: "v010-adapter",
        label: "v010-adapter",
        files: Some(v010_pods::write),
        observed: v010_pods::received,
        pod: v010_pods::any,
        refuses: true,
        ..ROW
    },
];
