//! An engine and a plugin that adjusts every container of it.

use nri_integration::{engines::*, *};
use serde_json::{Value, json};

pub(crate) const IMAGE: &str = "localhost/busybox:local";

/// Command of a container that exits at SIGTERM. `sleep` as the first process would ignore the
/// signal.
pub(crate) const WAIT: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"];

/// Adjustment with a variable, a mount, a device, an rlimit and cgroup limits, each of which is
/// visible in the container. The rlimit is one that the Go runtime, hence runc, does not change.
pub(crate) fn adjustment() -> Value {
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
                "cpu": {"cpus": "0", "shares": {"value": 512}},
                "memory": {
                    "limit": {"value": 100 << 20}, "reservation": {"value": 32 << 20},
                    "swap": {"value": 200 << 20}
                },
                "pids": {"limit": 66}
            }
        }
    })
}

/// Resources that [`adjustment`] sets: controller, file on cgroup v1, on v2, value.
const RESOURCES: [(&str, &str, &str, &str); 4] = [
    ("cpuset", "cpuset.cpus", "cpuset.cpus", "0"),
    ("pids", "pids.max", "pids.max", "66"),
    ("memory", "memory.limit_in_bytes", "memory.max", "104857600"),
    ("memory", "memory.soft_limit_in_bytes", "memory.low", "33554432"),
];

/// Checks the resources that [`adjustment`] sets, except those of some files on cgroup v1.
#[track_caller]
pub(crate) fn check_resources(process: ContainerProcess, except: &[&str]) {
    for (controller, v1, v2, value) in RESOURCES {
        if !except.contains(&v1) {
            assert_eq!(process.limit(controller, v1, v2), value, "{v1}");
        }
    }
    if !unified_cgroups() && !except.contains(&"cpu.shares") {
        assert_eq!(process.limit("cpu", "cpu.shares", ""), "512");
    }
}

/// CPU quota of a process' cgroup.
pub(crate) fn quota(process: ContainerProcess) -> String {
    let text = process.limit("cpu", "cpu.cfs_quota_us", "cpu.max");
    text.split(' ').next().unwrap_or_default().to_owned()
}

/// Resources in the UpdateContainer requests of a container, in order.
pub(crate) fn requested_updates(journal: &Journal, id: &str) -> Vec<Value> {
    let updates = journal.about(id).into_iter().filter(|e| e["event"] == "UpdateContainer");
    updates.map(|mut e| e["resources"].take()).collect()
}

/// An engine with a connected plugin that adjusts every container.
pub(crate) struct Adjusted<E> {
    // The engine is dropped first: its last events need no plugin.
    pub(crate) engine: E,
    pub(crate) plugin: External,
}

impl<E: Engine> Adjusted<E> {
    /// Starts an engine with [`adjustment`].
    pub(crate) fn start(suite: &Suite, go: &Program) -> Self {
        Self::with(E::start(suite), go, &adjustment())
    }

    /// Connects a plugin to the `nrid` of an engine that runs.
    pub(crate) fn with(engine: E, go: &Program, adjustment: &Value) -> Self {
        engine.ctl(&["start"]).success();
        let config = json!({"rules": [{"adjust": adjustment}]});
        let plugin = engine.connect("10-go", go, &config.to_string());
        Self { engine, plugin }
    }

    /// Starts a container that runs until SIGTERM. Returns its id.
    pub(crate) fn run_waiting(&self, name: &str) -> String {
        self.engine.run_detached(name, &[&["--network=none", IMAGE], &WAIT[..]].concat())
    }

    /// Waits until a container has been removed `n` times. Returns all its events.
    pub(crate) fn removed(&self, id: &str, n: usize) -> Vec<String> {
        wait_until(format_args!("removal {n} of {id}"), || {
            let events = self.plugin.journal.events(id);
            (events.iter().filter(|e| *e == "RemovePodSandbox").count() >= n).then_some(events)
        })
    }

    /// Waits until `n` pods have been removed.
    pub(crate) fn wait_for_removals(&self, n: usize) {
        let removed = |e: &&Value| e["event"] == "RemovePodSandbox";
        wait_until(format_args!("{n} removals"), || {
            (self.plugin.journal.entries().iter().filter(removed).count() == n).then_some(())
        });
    }
}

/// Runs a test with an engine of each suite and the Go plugin.
pub(crate) fn for_each<E: Engine>(name: &str, test: impl Fn(&Suite, &Program)) {
    let name = format!("{} {name}", E::NAME);
    let Some(go) = go(&name) else { return };
    for_each_suite(&name, E::PROGRAM, |suite| test(suite, &go));
}
