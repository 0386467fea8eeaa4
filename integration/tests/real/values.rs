//! Tests that a container sees the merged values of the engine and of two plugins.

use nri_integration::*;
use std::fs;

const MIB: u64 = 1 << 20;

/// Returns the resources that the engine requests, as JSON.
fn requested_resources() -> String {
    let cpuset = if has_cpusets() { r#", "cpus": "0", "mems": "0""# } else { "" };
    let hugepages = if has_hugepages() {
        r#", "hugepageLimits": [{"pageSize": "2MB", "limit": 4194304}]"#
    } else {
        ""
    };
    format!(
        r#"{{"memory": {{"limit": {}}},
             "cpu": {{"shares": 512, "quota": 50000, "period": 100000{cpuset}}},
             "pids": {{"limit": 50}}{hugepages}}}"#,
        64 * MIB
    )
}

/// Returns CPU 1, which the engine did not request, or CPU 0 if the host has only one CPU.
fn other_cpu() -> &'static str {
    if std::thread::available_parallelism().is_ok_and(|n| n.get() > 1) { "1" } else { "0" }
}

/// Creates a bundle as an engine does.
fn bundle(node: &Node, id: &str, arguments: &[&str]) -> Bundle {
    node.bundle(id)
        .resources(&requested_resources())
        .env("CHANGED=by the engine")
        .env("REMOVED=by the engine")
        .env("KEPT=by the engine")
        .annotation("example.org/kept=by the engine")
        .annotation("example.org/removed=by the engine")
        .arguments(arguments)
        .make()
}

/// Launches two plugins, each of which adjusts some of the fields.
fn install(node: &Node) {
    fs::create_dir(node.path("shared")).unwrap();
    node.launch(
        "10-adjust",
        &Program::Adjust,
        &format!(
            r#"
[create]
env = {{ set = {{ CHANGED = "by 10", ADDED = "by 10" }}, remove = ["REMOVED"] }}
annotations = {{ set = {{ "example.org/added" = "by 10" }}, remove = ["example.org/removed"] }}
[[create.mounts]]
destination = "/from-10"
source = {:?}
type = "bind"
options = ["bind", "ro", "nosuid"]
[[create.devices]]
path = "/dev/from-10"
type = "c"
major = 1
minor = 3
mode = 0o640
[[create.rlimits]]
type = "RLIMIT_NOFILE"
hard = 1024
soft = 512
[create.resources]
memory = {}
pids = 77
"#,
            node.path("shared"),
            96 * MIB
        ),
    );
    let cpuset = if has_cpusets() { format!("cpus = '{}'", other_cpu()) } else { String::new() };
    let hugepages = if has_hugepages() { "hugepages = { '2MB' = 8388608 }" } else { "" };
    let unified = if is_cgroup_v2() { "unified = { 'memory.high' = '83886080' }" } else { "" };
    node.launch(
        "20-more",
        &Program::Adjust,
        &format!(
            r#"
[create]
args = ["/probe", "wait", "from 20"]
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
            node.path("hooked").display()
        ),
    );
}

/// Checks the values that the container reports, the hook and the runtime's state.
fn check(node: &Node, id: &str, output: &str) {
    let seen = Report::parse(output);
    seen.check(&[
        ("args.0", "/probe"),
        ("args.1", "wait"),
        ("args.2", "from 20"),
        ("env.CHANGED", "by 10"),
        ("env.ADDED", "by 10"),
        ("env.KEPT", "by the engine"),
        ("memory.limit_in_bytes|memory.max", "100663296"),
        ("pids.max", "77"),
        // cgroup v2 weights of 1024 shares: the two conversions that versions of the runtimes have.
        ("cpu.shares|cpu.weight", "1024|39|100"),
        ("cpu.cfs_quota_us|cpu.max", "25000|25000 100000"),
        ("rlimit.nofile", "512 1024"),
        ("device./dev/from-10", "c 1:3 640"),
    ]);
    assert_eq!(seen.get("env.REMOVED"), None);
    let mount = seen.get("mount./from-10").expect("the plugin's mount");
    assert!(mount.contains("ro,nosuid"), "{mount}");
    if has_cpusets() {
        seen.check(&[("cpuset.cpus", other_cpu()), ("cpuset.mems", "0")]);
    }
    if has_hugepages() {
        seen.check(&[("hugetlb.2MB.limit_in_bytes|hugetlb.2MB.max", "8388608")]);
    }
    if is_cgroup_v2() {
        seen.check(&[("memory.high", "83886080")]);
    }
    let hook_input = fs::read_to_string(node.path("hooked")).expect("the hook ran");
    assert!(hook_input.contains(id), "the hook has not read the container state: {hook_input}");
    let annotations = &node.state(id).unwrap()["annotations"];
    assert_eq!(annotations["example.org/added"], "by 10");
    assert_eq!(annotations["example.org/kept"], "by the engine");
    assert_eq!(annotations.get("example.org/removed"), None);
}

#[test]
fn a_created_container_has_the_values_of_plugins() {
    for_each_runtime("values after create", |runtime| {
        let node = Node::new(runtime);
        install(&node);
        let id = node.id("c");
        let bundle = bundle(&node, &id, &["/probe", "wait", "from the engine"]);
        let original = bundle.bytes();
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        check(&node, &id, &created.out());
        node.call(&["delete", "--force", &id]).success();
        assert_eq!(bundle.bytes(), original, "the engine's config.json was changed");
    });
}

#[test]
fn a_run_container_has_the_values_of_plugins() {
    for_each_runtime("values after run", |runtime| {
        let node = Node::new(runtime);
        install(&node);
        let id = node.id("c");
        let bundle = bundle(&node, &id, &["/probe", "wait", "from the engine"]);
        let original = bundle.bytes();
        let mut run = node.wrapper();
        run.args(["run", "--detach", "--bundle"]).arg(bundle.dir()).arg(&id);
        let ran = node.run(run).success();
        wait_until("the probe", || ran.out().contains("ready=1").then_some(()));
        check(&node, &id, &ran.out());
        node.call(&["delete", "--force", &id]).success();
        assert_eq!(bundle.bytes(), original, "the engine's config.json was changed");
    });
}

/// If a `createContainer` hook has no `env`, runc passes it the environment of the container. The
/// hook runs as root on the host, so an image could inject code through `LD_PRELOAD`.
#[test]
fn a_hook_of_a_plugin_does_not_inherit_the_environment_of_the_container() {
    for_each_runtime("hook environment", |runtime| {
        let node = Node::new(runtime);
        let (bare, own) = (node.path("bare"), node.path("own"));
        let hook = |env: &str, file: &std::path::Path| {
            let script = format!("tr '\\\\0' ' ' </proc/self/environ >{}", file.display());
            format!(
                "[[create.hooks]]\nstage = 'create_container'\npath = '/bin/sh'\n\
                 args = ['sh', '-c', \"{script}\"]\nenv = {env}\n"
            )
        };
        let rules = hook("[]", &bare) + &hook("['A=b', 'PATH=/usr/bin:/bin']", &own);
        node.launch("10-adjust", &Program::Adjust, &rules);
        let id = node.id("c");
        node.create(&node.bundle(&id).env("LD_EVIL=yes").make(), &id).success();
        let read = |file| fs::read_to_string(file).unwrap();
        assert_eq!(
            read(&bare).trim(),
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        );
        assert_eq!(read(&own).trim(), "A=b PATH=/usr/bin:/bin");
        node.call(&["delete", "--force", &id]).success();
    });
}
