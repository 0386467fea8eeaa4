//! An engine with a plugin that adjusts every container of the engine.

use nri_integration::{engines::*, *};
use serde_json::{Value, json};

pub(crate) const IMAGE: &str = "localhost/busybox:local";

/// Command of a container that exits at SIGTERM. `sleep` as the container's first process would not
/// exit: the kernel ignores signals for which process 1 has no handler.
pub(crate) const WAIT: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"];

/// Adjustment with a variable, a mount, a device, an rlimit and cgroup limits, each of which can be
/// read in the container. The rlimit is RLIMIT_CORE, because the Go runtime in runc changes
/// RLIMIT_NOFILE. CPUs are left out where the kernel has no cpusets, as in User Mode Linux.
pub(crate) fn adjustment() -> Value {
    let mut cpu = json!({"shares": {"value": 512}});
    if has_cpusets() {
        cpu["cpus"] = "0".into();
    }
    json!({
        "env": [{"key": "NRI", "value": "here"}],
        "mounts": [{
            "destination": "/nri", "source": "/proc/version", "type": "bind",
            "options": ["bind", "ro"]
        }],
        "rlimits": [{"type": "RLIMIT_CORE", "soft": 512, "hard": 1024}],
        "linux": {
            "devices": [{
                "path": "/dev/nri", "type": "c", "major": 1, "minor": 3,
                "fileMode": {"value": 0o666}
            }],
            "resources": {
                "cpu": cpu,
                "memory": {
                    "limit": {"value": 100 << 20}, "reservation": {"value": 32 << 20},
                    "swap": {"value": 200 << 20}
                },
                "pids": {"limit": 66}
            }
        }
    })
}

/// Resources that [`adjustment`] sets: controller, file on cgroup v1, file on cgroup v2, value.
const RESOURCES: [(&str, &str, &str, &str); 4] = [
    ("cpuset", "cpuset.cpus", "cpuset.cpus", "0"),
    ("pids", "pids.max", "pids.max", "66"),
    ("memory", "memory.limit_in_bytes", "memory.max", "104857600"),
    ("memory", "memory.soft_limit_in_bytes", "memory.low", "33554432"),
];

/// Checks the resources that [`adjustment`] sets. `except` has the names of cgroup v1 files that
/// are not checked.
#[track_caller]
pub(crate) fn check_resources_except(process: ContainerProcess, except: &[&str]) {
    for (controller, v1, v2, value) in RESOURCES {
        let exists = controller != "cpuset" || has_cpusets();
        if exists && !except.contains(&v1) {
            assert_eq!(process.limit(controller, v1, v2), value, "{v1}");
        }
    }
    if !is_cgroup_v2() && !except.contains(&"cpu.shares") {
        assert_eq!(process.limit("cpu", "cpu.shares", ""), "512");
    }
}

/// Returns the CPU quota of a process's cgroup.
pub(crate) fn quota(process: ContainerProcess) -> String {
    let text = process.limit("cpu", "cpu.cfs_quota_us", "cpu.max");
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Returns the resources in the UpdateContainer requests for a container, in order.
pub(crate) fn requested_updates(journal: &Journal, id: &str) -> Vec<Value> {
    let updates = journal.entries_about(id).into_iter().filter(|e| e["event"] == "UpdateContainer");
    updates.map(|mut e| e["resources"].take()).collect()
}

/// An engine with a connected plugin that adjusts every container.
pub(crate) struct Adjusted<E> {
    // Fields are dropped in this order: the plugin stays connected until the engine has stopped.
    pub(crate) engine: E,
    pub(crate) plugin: External,
}

impl<E: Engine> Adjusted<E> {
    /// Starts an engine and a plugin with [`adjustment`].
    pub(crate) fn start(suite: &Suite, go_plugin: &Program) -> Self {
        Self::with(E::start(suite), go_plugin, &adjustment())
    }

    /// Connects a plugin with this adjustment to the `nrid` of a running engine.
    pub(crate) fn with(engine: E, go_plugin: &Program, adjustment: &Value) -> Self {
        engine.ctl(&["start"]).success();
        let config = json!({"rules": [{"adjust": adjustment}]});
        let plugin = engine.connect("10-go", go_plugin, &config.to_string());
        Self { engine, plugin }
    }

    /// Starts a container that runs until SIGTERM. Returns its id.
    pub(crate) fn run_waiting(&self, name: &str) -> String {
        self.engine.run_detached(name, &[&["--network=none", IMAGE], &WAIT[..]].concat())
    }

    /// Waits until a container has been stopped and removed `n` times: Docker and Podman create a
    /// new OCI container with the same id for each start. Returns all events of the container.
    pub(crate) fn events_until_removal(&self, id: &str, n: usize) -> Vec<String> {
        wait_until(format_args!("removal {n} of {id}"), || {
            let events = self.plugin.journal.events(id);
            (events.iter().filter(|e| *e == "RemovePodSandbox").count() >= n).then_some(events)
        })
    }

    /// Waits until exactly `n` pods have been removed.
    pub(crate) fn wait_for_removals(&self, n: usize) {
        let is_removal = |e: &&Value| e["event"] == "RemovePodSandbox";
        wait_until(format_args!("the removal of {n} pods"), || {
            (self.plugin.journal.entries().iter().filter(is_removal).count() == n).then_some(())
        });
    }
}

/// Runs a test with an engine of each suite and the Go plugin.
pub(crate) fn for_each<E: Engine>(name: &str, test: impl Fn(&Suite, &Program)) {
    let name = format!("{} {name}", E::NAME);
    let Some(go_plugin) = go_plugin(&name) else { return };
    for_each_suite(&name, E::PROGRAM, |suite| test(suite, &go_plugin));
}
