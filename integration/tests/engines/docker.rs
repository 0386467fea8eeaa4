//! Docker, with the wrapper as its default runtime and plugins on upstream's Go stub.

mod crun;
mod daemon;
mod failing;
mod identity;
mod install;
mod life;
mod update;

use nri_integration::{engines::*, *};
use serde_json::{Value, json};

pub(crate) const IMAGE: &str = "localhost/busybox:local";
/// What a container does that a test ends: it ends at SIGTERM, which `sleep` as first process would
/// not.
pub(crate) const WAIT: [&str; 3] = ["sh", "-c", "trap 'exit 0' TERM; sleep 600 & wait"];

/// Something of everything that containers show: a variable, a mount, a device, an rlimit, limits
/// of its cgroup. The rlimit is one that Go's own start-up, that of runc, leaves alone.
pub(crate) fn adjustment() -> Value {
    json!({
        "env": [{"key": "NRI", "value": "here"}],
        "mounts": [{"destination": "/nri", "source": "/proc/version", "type": "bind", "options": ["bind", "ro"]}],
        "rlimits": [{"type": "RLIMIT_CORE", "soft": 512, "hard": 1024}],
        "linux": {
            "devices": [{"path": "/dev/nri", "type": "c", "major": 1, "minor": 3, "fileMode": {"value": 0o666}}],
            "resources": {
                "cpu": {"cpus": "0", "shares": {"value": 512}},
                "memory": {"limit": {"value": 100 << 20}, "reservation": {"value": 32 << 20}, "swap": {"value": 200 << 20}},
                "pids": {"limit": 66}
            }
        }
    })
}

/// A dockerd with a plugin that adjusts every container so.
struct Adjusted {
    // Dropped in this order: a plugin that is told of the end needs not be there.
    docker: Docker,
    plugin: External,
}

impl Adjusted {
    fn start(suite: &Suite, go: &Program, adjustment: &Value) -> Self {
        Self::with(Docker::start(suite), go, adjustment)
    }

    fn with(docker: Docker, go: &Program, adjustment: &Value) -> Self {
        docker.ctl(&["start"]).success();
        let config = json!({"rules": [{"adjust": adjustment}]});
        let plugin = docker.connect("10-go", go, &config.to_string());
        Self { docker, plugin }
    }

    /// Waits until a container is told to be removed for the nth time, and returns all that was
    /// heard of it.
    fn lives(&self, id: &str, n: usize) -> Vec<String> {
        wait_until(format_args!("life {n} of {id} to end"), || {
            let events = self.plugin.journal.events(id);
            (events.iter().filter(|e| *e == "RemovePodSandbox").count() >= n).then_some(events)
        })
    }
}

/// Runs a test with the dockerd of each suite and the Go plugin.
fn for_each(name: &str, test: impl Fn(&Suite, &Program)) {
    let Some(go) = go(name) else { return };
    for_each_suite(name, "dockerd", |suite| test(suite, &go));
}

/// The kernel tells how a process ended from Linux 6.15 on.
pub(crate) fn kernel_tells_exit_codes() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}
