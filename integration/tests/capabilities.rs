//! Compares the table of the runtimes' capabilities with real runtimes: those that are installed,
//! and those whose paths are in `NRI_TEST_RUNTIMES`, separated by colons.
//!
//! Each field is set twice: in the `config.json` of a container of the bare runtime, and by a
//! plugin. Either both containers show the effect, or neither does and the wrapper refuses the
//! creation with an error that names plugin and field. The test fails for a field that is ignored,
//! and for a field that is refused although the runtime supports it.

use nri_integration::*;
use serde_json::{Value, json};
use std::{fs, path::PathBuf, process::Command, sync::Arc};

const PLUGIN: &str = "10-requests";

/// A field to compare.
struct Case {
    name: &'static str,
    /// Name of the field in the wrapper's error.
    field: &'static str,
    /// Adjustment that the plugin requests.
    adjust: Value,
    /// Path in config.json at which `value` is set.
    path: Vec<&'static str>,
    value: Value,
    /// Shell script that the container runs.
    probe: &'static str,
    /// Whether the script's output shows the effect.
    shows: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

/// Returns a case whose effect is that the container runs.
fn case(
    name: &'static str,
    field: &'static str,
    adjust: Value,
    path: &[&'static str],
    value: Value,
) -> Case {
    Case {
        name,
        field,
        adjust,
        path: path.to_vec(),
        value,
        probe: "echo ran",
        shows: Arc::new(|out| out.contains("ran")),
    }
}

impl Case {
    /// Sets the script, and the check of its output.
    fn probe(
        mut self,
        probe: &'static str,
        shows: impl Fn(&str) -> bool + Send + Sync + 'static,
    ) -> Self {
        (self.probe, self.shows) = (probe, Arc::new(shows));
        self
    }

    /// Sets the script, and the output that shows the effect.
    fn prints(self, probe: &'static str, line: &'static str) -> Self {
        self.probe(probe, move |out| out.trim() == line)
    }

    /// Sets `value` in a config.json; appends it if the field is a list.
    fn edit(&self, config: &mut Value) {
        let mut target = config;
        for key in &self.path {
            target = &mut target[key];
        }
        match (target.as_array_mut(), self.value.clone()) {
            (Some(list), value) => list.push(value),
            (None, value) => *target = value,
        }
    }
}

/// Script that prints the named file of the container's cgroup, v1 or v2.
macro_rules! cgroup {
    ($file:literal) => {
        concat!("cd /sys/fs/cgroup; cat ", $file, " */", $file, " 2>/dev/null | head -n 1")
    };
}

fn cases() -> Vec<Case> {
    let resources = |r: Value| json!({"linux": {"resources": r}});
    let memory = |key: &str, value: Value| resources(json!({"memory": {key: {"value": value}}}));
    let host_time_namespace = fs::read_link("/proc/self/ns/time").map(|l| l.display().to_string());
    let seccomp = |flag: &str| {
        let syscalls = json!([{"names": ["swapoff"], "action": "SCMP_ACT_ERRNO"}]);
        json!({"defaultAction": "SCMP_ACT_ALLOW", "flags": [flag], "syscalls": syscalls})
    };
    let with_seccomp = |name: &'static str, flag: &'static str| {
        let field = if name.ends_with("log") {
            "seccomp flag SECCOMP_FILTER_FLAG_LOG"
        } else {
            "seccomp flag SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"
        };
        case(
            name,
            field,
            json!({"linux": {"seccompPolicy": seccomp(flag)}}),
            &["linux", "seccomp"],
            seccomp(flag),
        )
    };
    let mount = |option: &str| {
        let options = ["rbind", option];
        json!({"destination": "/m", "type": "bind", "source": "/proc/self", "options": options})
    };
    let copied = json!({
        "destination": "/bin", "type": "tmpfs", "source": "tmpfs", "options": ["tmpcopyup"]
    });
    let mount_options =
        "while read -r _ d _ o _; do [ \"$d\" != /m ] || echo \"$o\"; done </proc/self/mounts";
    let mut cases = vec![
        case(
            "scheduler",
            "scheduler",
            json!({"linux": {"scheduler": {"policy": "SCHED_BATCH", "nice": 5}}}),
            &["process", "scheduler"],
            json!({"policy": "SCHED_BATCH", "nice": 5}),
        )
        // Fields 19 (nice value) and 41 (policy) of /proc/PID/stat; SCHED_BATCH is 3.
        .prints("set -- $(cat /proc/self/stat); shift 18; echo $1; shift 22; echo $1", "5\n3"),
        case(
            "io priority",
            "io_priority",
            json!({"linux": {"ioPriority": {"class": "IOPRIO_CLASS_BE", "priority": 7}}}),
            &["process", "ioPriority"],
            json!({"class": "IOPRIO_CLASS_BE", "priority": 7}),
        )
        .prints("ionice -p $$", "best-effort: prio 7"),
        with_seccomp("seccomp log", "SECCOMP_FILTER_FLAG_LOG"),
        with_seccomp("seccomp wait", "SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV"),
        case(
            "unified",
            "unified[memory.high]",
            resources(json!({"unified": {"memory.high": "61440000"}})),
            &["linux", "resources", "unified"],
            json!({"memory.high": "61440000"}),
        )
        .prints(cgroup!("memory.high"), "61440000"),
        case(
            "hugepages",
            "hugepageLimits[2MB]",
            resources(json!({"hugepageLimits": [{"pageSize": "2MB", "limit": "4194304"}]})),
            &["linux", "resources", "hugepageLimits"],
            json!([{"pageSize": "2MB", "limit": 4_194_304}]),
        )
        .prints(
            "cd /sys/fs/cgroup; cat hugetlb.2MB.max hugetlb/hugetlb.2MB.limit_in_bytes \
                2>/dev/null | head -n 1",
            "4194304",
        ),
        case(
            "swappiness",
            "memory.swappiness",
            memory("swappiness", json!("17")),
            &["linux", "resources", "memory"],
            json!({"swappiness": 17}),
        )
        .prints(cgroup!("memory.swappiness"), "17"),
        case(
            "kernel memory",
            "memory.kernel",
            memory("kernel", json!("33554432")),
            &["linux", "resources", "memory"],
            json!({"kernel": 33_554_432}),
        )
        .prints(cgroup!("memory.kmem.limit_in_bytes"), "33554432"),
        case(
            "kernel tcp memory",
            "memory.kernelTCP",
            memory("kernelTcp", json!("33554432")),
            &["linux", "resources", "memory"],
            json!({"kernelTCP": 33_554_432}),
        )
        .prints(cgroup!("memory.kmem.tcp.limit_in_bytes"), "33554432"),
        case(
            "oom killer",
            "memory.disableOOMKiller",
            memory("disableOomKiller", json!(true)),
            &["linux", "resources", "memory"],
            json!({"disableOOMKiller": true}),
        )
        .prints(cgroup!("memory.oom_control"), "oom_kill_disable 1"),
        case(
            "flat hierarchy",
            "memory.useHierarchy",
            memory("useHierarchy", json!(false)),
            &["linux", "resources", "memory"],
            json!({"useHierarchy": false}),
        )
        .prints(cgroup!("memory.use_hierarchy"), "0"),
        case(
            "realtime period",
            "cpu.realtimePeriod",
            resources(json!({"cpu": {"realtimePeriod": {"value": "900000"}}})),
            &["linux", "resources", "cpu"],
            json!({"realtimePeriod": 900_000}),
        )
        .prints(cgroup!("cpu.rt_period_us"), "900000"),
        case(
            "recursive read-only",
            "mounts[/m] option \"rro\"",
            json!({"mounts": [mount("rro")]}),
            &["mounts"],
            mount("rro"),
        )
        .probe(mount_options, |out| out.starts_with("ro,")),
        case(
            "nosymfollow",
            "mounts[/m] option \"nosymfollow\"",
            json!({"mounts": [mount("nosymfollow")]}),
            &["mounts"],
            mount("nosymfollow"),
        )
        .probe(mount_options, |out| out.contains("nosymfollow")),
        // Without the option, the empty tmpfs hides the shell, and the container does not run.
        case(
            "copy up",
            "mounts[/bin] option \"tmpcopyup\"",
            json!({"mounts": [copied]}),
            &["mounts"],
            copied.clone(),
        ),
    ];
    if let Ok(host) = host_time_namespace {
        let time = json!({"type": "time"});
        let case = case(
            "time namespace",
            "namespaces[time]",
            json!({"linux": {"namespaces": [time]}}),
            &["linux", "namespaces"],
            time.clone(),
        );
        cases.push(case.probe("readlink /proc/self/ns/time", move |out| {
            out.starts_with("time:") && out.trim() != host
        }));
    }
    if fs::exists("/proc/self/numa_maps").unwrap_or_default() {
        let policy = json!({"mode": "MPOL_BIND", "nodes": "0"});
        let case = case(
            "memory policy",
            "memory_policy",
            json!({"linux": {"memoryPolicy": policy}}),
            &["linux", "memoryPolicy"],
            policy.clone(),
        );
        cases.push(case.probe("head -n 1 /proc/self/numa_maps", |out| out.contains("bind")));
    } else {
        skip("capabilities: memory policy", "the kernel does not support NUMA");
    }
    if fs::exists("/sys/fs/resctrl/schemata").unwrap_or_default() {
        skip("capabilities: RDT without resctrl", "resctrl is mounted");
    } else {
        let rdt = json!({"closId": {"value": "gold"}});
        let case = case(
            "rdt",
            "rdt.closID",
            json!({"linux": {"rdt": rdt}}),
            &["linux", "intelRdt"],
            json!({"closID": "gold"}),
        );
        // Without resctrl the field cannot have an effect.
        cases.push(case.probe("true", |_| false));
    }
    cases
}

/// Returns the installed runtimes and the runtimes in `NRI_TEST_RUNTIMES`.
fn all_runtimes() -> Vec<Runtime> {
    let more = std::env::var_os("NRI_TEST_RUNTIMES").unwrap_or_default();
    let more =
        std::env::split_paths(&more).filter(|p| !p.as_os_str().is_empty()).map(|path: PathBuf| {
            let name = if path.ends_with("crun") { "crun" } else { "runc" };
            Runtime { name, path }
        });
    let mut all = runtimes().0.clone();
    all.extend(more);
    all
}

/// Whether the container ran and its output shows the effect.
fn shows_effect(case: &Case, ended: &Ended) -> bool {
    ended.code == Some(0) && (case.shows)(&ended.out())
}

#[test]
fn the_table_of_capabilities_agrees_with_the_runtimes() {
    let Some(go_plugin) = go_plugin("capabilities") else { return };
    for (runtime, reason) in &runtimes().1 {
        skip(&format!("capabilities ({runtime})"), reason);
    }
    for runtime in all_runtimes() {
        let defects = check_all(&runtime, &go_plugin, cases());
        assert!(defects.is_empty(), "{}:\n{}", version(&runtime), defects.join("\n"));
    }
}

fn version(runtime: &Runtime) -> String {
    let out =
        Command::new(&runtime.path).arg("--version").output().expect("the runtime can be executed");
    String::from_utf8_lossy(&out.stdout).lines().next().unwrap_or_default().to_owned()
}

/// Checks all cases with a runtime. Returns the defects.
fn check_all(runtime: &Runtime, go_plugin: &Program, cases: Vec<Case>) -> Vec<String> {
    let node = Node::new(runtime);
    let rule = |(i, case): (usize, &Case)| {
        json!({"id": node.id(&format!("plugin{i}")),
        "adjust": case.adjust})
    };
    let rules: Vec<_> = cases.iter().enumerate().map(rule).collect();
    node.launch(PLUGIN, go_plugin, &json!({"rules": rules}).to_string());
    let check = |(i, case): (usize, &Case)| {
        let make_bundle =
            |id: &str| node.bundle(id).arguments(&["/bin/sh", "-c", case.probe]).make();
        let id = node.id(&format!("bare{i}"));
        let bundle = make_bundle(&id);
        bundle.edit(|config| case.edit(config));
        let bare = node.bare(&["run", "--bundle", bundle.dir().to_str().expect("UTF-8"), &id]);
        let id = node.id(&format!("plugin{i}"));
        let bundle = make_bundle(&id);
        let adjusted = node.call(&["run", "--bundle", bundle.dir().to_str().expect("UTF-8"), &id]);
        let (supported, effective) = (shows_effect(case, &bare), shows_effect(case, &adjusted));
        let err = adjusted.err();
        let refused = adjusted.code == Some(1)
            && err.contains(&format!(
                "{} (set by plugin \"{PLUGIN}\") is not supported by",
                case.field
            ));
        println!(
            "{} {}: {}",
            version(runtime),
            case.name,
            if supported { "supported" } else { "not supported" }
        );
        match (supported, effective, refused) {
            (true, true, false) | (false, false, true) => None,
            _ => Some(format!(
                "{}: {} by the bare runtime ({}{}), {} if set by a plugin ({}{err})",
                case.name,
                if supported { "supported" } else { "not supported" },
                bare.out(),
                bare.err(),
                if effective { "effective" } else { "not effective" },
                adjusted.out(),
            )),
        }
    };
    cases.iter().enumerate().filter_map(check).collect()
}
