//! The bundle with the engine's requests, and the two plugins with their configurations.

use nri_integration::{Bundle, Journal, Node, Program, has_cpusets, has_hugepages, is_cgroup_v2};
use std::fs;

/// The two plugins of a node.
#[derive(Debug)]
pub(crate) struct Scenario {
    /// Configurations, in the order of the plugins.
    pub(crate) plugins: [toml::Table; 2],
    /// Journal of the first plugin.
    pub(crate) journal: Journal,
}

/// Writes the bundle, as an engine does.
pub(crate) fn bundle(node: &Node, id: &str) -> Bundle {
    let cpuset = if has_cpusets() { r#", "cpus": "0", "mems": "0""# } else { "" };
    let hugepages = if has_hugepages() {
        r#", "hugepageLimits": [{"pageSize": "2MB", "limit": 4194304}]"#
    } else {
        ""
    };
    let cpu = format!(r#"{{"shares": 512, "quota": 50000, "period": 100000{cpuset}}}"#);
    node.bundle(id)
        .resources(&format!(
            r#"{{"memory": {{"limit": 67108864}}, "cpu": {cpu},
                            "pids": {{"limit": 50}}{hugepages}}}"#
        ))
        .env("CHANGED=engine")
        .env("REMOVED=engine")
        .env("KEPT=engine")
        .annotation("example.org/by=engine")
        .arguments(&["/probe", "wait", "engine"])
        .make()
}

/// Installs two instances of the SDK's example plugin, each of which sets some values.
pub(crate) fn install(node: &Node) -> Scenario {
    let (shared, hook_output) = (node.path("shared"), node.path("hooked"));
    fs::create_dir(&shared).expect("the node's directory is writable");
    let first = format!(
        r#"[create]
env = {{ set = {{ CHANGED = "10-adjust", ADDED = "10-adjust" }}, remove = ["REMOVED"] }}
[[create.mounts]]
destination = "/data"
source = {shared:?}
type = "bind"
options = ["bind", "ro", "nosuid"]
[[create.devices]]
path = "/dev/extra"
type = "c"
major = 1
minor = 3
mode = 0o640
[[create.rlimits]]
type = "RLIMIT_NOFILE"
soft = 512
hard = 1024
[create.resources]
memory = 100663296
pids = 77
"#
    );
    let other_cpu =
        if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) { "1" } else { "0" };
    let cpuset = if has_cpusets() { format!("cpus = '{other_cpu}'") } else { String::new() };
    let hugepages = if has_hugepages() { "hugepages = { '2MB' = 8388608 }" } else { "" };
    let unified = if is_cgroup_v2() { "unified = { 'memory.high' = '83886080' }" } else { "" };
    let second = format!(
        r#"[create]
args = ["/probe", "wait", "20-more"]
annotations = {{ set = {{ "example.org/by" = "20-more" }} }}
[[create.hooks]]
stage = "create_runtime"
path = "/bin/sh"
args = ["sh", "-c", "cat > {}"]
[create.resources]
shares = 1024
quota = 25000
{cpuset}
{hugepages}
{unified}
"#,
        hook_output.display()
    );
    let journal = node.launch("10-adjust", &Program::Adjust, &first);
    node.launch("20-more", &Program::Adjust, &second);
    let parse = |text: &str| text.parse().expect("the configuration is TOML");
    Scenario { plugins: [parse(&first), parse(&second)], journal }
}
