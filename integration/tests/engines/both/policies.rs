//! Resource policies of containers/nri-plugins on Docker and Podman: the plugins `balloons`,
//! `topology-aware` and `memory-qos`, launched by `nrid`, without Kubernetes.
//!
//! `NRI_TEST_POLICIES` is the directory of the plugins, which `plugins/policies.sh` builds from a
//! checkout of containers/nri-plugins; `make test-policies` does both. The results are in
//! `docs/reference/nri-plugins.md`.

use crate::adjusted::*;
use nri_integration::{engines::*, *};
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Defines an ignored test for each generic function, and for Docker and Podman.
macro_rules! test_both_with_policies {
    ($($name:ident),+) => {
        mod docker {$(
            #[test]
            #[ignore = "needs plugins of containers/nri-plugins, see make test-policies"]
            fn $name() { super::$name::<nri_integration::engines::Docker>(); }
        )+}
        mod podman {$(
            #[test]
            #[ignore = "needs plugins of containers/nri-plugins, see make test-policies"]
            fn $name() { super::$name::<nri_integration::engines::Podman>(); }
        )+}
    };
}

test_both_with_policies! {
    balloons_pins_containers,
    topology_aware_pins_containers,
    memory_qos_sets_files_of_cgroup_v2
}

/// Two balloons of one CPU each: containers named `web`, `later` and `last` are in one, all others
/// in the other. The tests need a host with two CPUs.
const BALLOONS: &str = "\
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata:
  name: default
spec:
  reservedResources:
    cpu: cpuset:0
  pinCPU: true
  pinMemory: true
  balloonTypes:
  - name: web
    minCPUs: 1
    maxCPUs: 1
    maxBalloons: 1
    matchExpressions:
    - key: name
      operator: In
      values: [web, later, last]
  - name: default
    namespaces: [\"*\"]
    shareIdleCPUsInSame: system
";

const TOPOLOGY_AWARE: &str = "\
apiVersion: config.nri/v1alpha1
kind: TopologyAwarePolicy
metadata:
  name: default
spec:
  pinCPU: true
  pinMemory: true
  reservedResources:
    cpu: cpuset:0
";

const MEMORY_QOS: &str = "\
classes:
- name: bronze
  swaplimitratio: 0.5
unifiedannotations:
- memory.high
";

/// An engine whose `nrid` launches one plugin.
struct Policy<E> {
    engine: E,
    name: String,
}

/// What these tests need of an engine besides containers.
pub(super) trait Managed: Engine {
    /// Calls a program in the mount namespace of the engine.
    fn inside(&self, program: &Path, arguments: &[&str]) -> Ended;
    /// Restarts the engine, but not its containers.
    fn restart(&self);
}

impl Managed for Docker {
    fn inside(&self, program: &Path, arguments: &[&str]) -> Ended {
        self.inside(program, arguments)
    }

    fn restart(&self) {
        self.halt("TERM");
        self.resume();
    }
}

impl Managed for Podman {
    fn inside(&self, program: &Path, arguments: &[&str]) -> Ended {
        self.inside(program, arguments)
    }

    /// Podman has no daemon.
    fn restart(&self) {}
}

impl<E: Managed> Policy<E> {
    /// Installs a resource policy, which registers only if the variables with its name and index
    /// are not set: it has options for both, and upstream's stub takes only one of them.
    fn resource_policy(suite: &Suite, program: &str, config: &str) -> Self {
        let command = "env -u NRI_PLUGIN_NAME -u NRI_PLUGIN_IDX";
        let arguments = "-config-file CONFIG -state-dir DIR/state -pid-file DIR/pid";
        Self::start(suite, command, program, arguments, config)
    }

    /// Installs the plugin as `90-PROGRAM`, called by this command with these arguments, with the
    /// privileges of a new installation.
    fn start(suite: &Suite, command: &str, program: &str, arguments: &str, config: &str) -> Self {
        let dir = std::env::var_os("NRI_TEST_POLICIES").map(PathBuf::from);
        let dir = dir.expect("NRI_TEST_POLICIES is set, see make test-policies");
        let engine = E::start(suite);
        engine.configure(
            "plugin = [{ match = '*', capabilities = [], no_new_privs = true }]\n\
             pods.annotations_from_labels = ['class.memory-qos.nri.io']\n",
        );
        let new = Self { engine, name: format!("90-{program}") };
        // The policies mount a directory of their state into each container as `rslave`, which
        // needs a shared mount: under systemd, `/` is one.
        let state = new.engine.path("state");
        fs::create_dir(&state).unwrap();
        let mount = "mount --bind \"$1\" \"$1\" && mount --make-shared \"$1\"";
        let shell = ["-c", mount, "sh", state.to_str().unwrap()];
        Managed::inside(&new.engine, Path::new("sh"), &shell).success();
        let file = new.engine.path("policy.conf");
        fs::write(&file, config).unwrap();
        let arguments = arguments.replace("CONFIG", &file.display().to_string());
        let arguments = arguments.replace("DIR", &new.engine.path("").display().to_string());
        let program = dir.join(program);
        let script = format!("#!/bin/sh\nexec {command} '{}' {arguments}\n", program.display());
        write_program(&new.engine.path("plugins").join(&new.name), &script);
        new.engine.ctl(&["start"]).success();
        new.wait_until_active(None);
        new
    }

    /// Waits until the plugin is active, in another process than this one. Returns its process.
    fn wait_until_active(&self, previous: Option<Process>) -> Process {
        wait_until(format_args!("{} to be active", self.name), || {
            let status = self.engine.status()?;
            let plugins = status["plugins"].as_array()?;
            let plugin = plugins.iter().find(|p| p["name"] == self.name)?;
            let process = Process(u32::try_from(plugin["pid"].as_u64()?).ok()?);
            let is_other = previous.is_none_or(|previous| previous.0 != process.0);
            (plugin["state"] == "active" && is_other).then_some(process)
        })
    }

    fn run(&self, name: &str, options: &[&str]) -> ContainerProcess {
        let options = [&["--network=none"], options, &[IMAGE], &WAIT].concat();
        self.engine.run_detached(name, &options);
        self.engine.process_of(name)
    }
}

/// CPUs of a container, in the kernel. Its memory is that of node 0.
#[track_caller]
fn cpus(process: ContainerProcess) -> String {
    let read = |file: &str| process.limit("cpuset", file, &format!("{file}.effective"));
    assert_eq!(read("cpuset.mems"), "0");
    read("cpuset.cpus")
}

/// Each balloon has one of the host's CPUs; which one, the plugin decides anew after a restart.
fn balloons_pins_containers<E: Managed>() {
    for_each_suite("balloons", E::PROGRAM, |suite| {
        let policy = Policy::<E>::resource_policy(suite, "balloons", BALLOONS);
        check_pinned(&policy, &[], |web, db| {
            let mut cpus = [web, db];
            cpus.sort_unstable();
            assert_eq!(cpus, ["0", "1"]);
        });
    });
}

/// CPU 0 is reserved for the namespace `kube-system`, in which no container is.
fn topology_aware_pins_containers<E: Managed>() {
    for_each_suite("topology-aware", E::PROGRAM, |suite| {
        let policy = Policy::<E>::resource_policy(suite, "topology-aware", TOPOLOGY_AWARE);
        let options = ["--cpu-shares=256", "--memory=64m"];
        check_pinned(&policy, &options, |web, db| assert_eq!([web, db], ["1", "1"]));
    });
}

/// Checks the CPUs of the containers `web` and `db` by `check`, at their start and after restarts
/// of the plugin, of `nrid` and of the engine, and that later containers like `web` get its CPUs.
fn check_pinned<E: Managed>(policy: &Policy<E>, options: &[&str], check: impl Fn(&str, &str)) {
    let web = policy.run("web", options);
    let db = policy.run("db", &[]);
    let check = || {
        check(&cpus(web), &cpus(db));
        // What the plugin has set is what the kernel has.
        policy.engine.ctl(&["verify"]).success();
    };
    check();

    let process = policy.wait_until_active(None);
    process.signal(Signal::KILL);
    policy.wait_until_active(Some(process));
    check();
    assert_eq!(cpus(policy.run("later", options)), cpus(web));

    policy.engine.ctl(&["stop"]).success();
    policy.engine.ctl(&["start"]).success();
    policy.wait_until_active(None);
    check();

    policy.engine.restart();
    check();
    assert_eq!(cpus(policy.run("last", options)), cpus(web));
    policy.engine.out(&["update", "--cpu-shares", "128", "web"]);
    check();
}

/// On cgroup v1, where the files do not exist, the container is refused.
fn memory_qos_sets_files_of_cgroup_v2<E: Managed>() {
    for_each_suite("memory-qos", E::PROGRAM, |suite| {
        let arguments = "-config CONFIG";
        let policy = Policy::<E>::start(suite, "", "memory-qos", arguments, MEMORY_QOS);
        let label = "--label=class.memory-qos.nri.io=bronze";
        let arguments = ["run", "--detach", "--name=web", "--network=none", label, "--memory=64m"];
        let ended = policy.engine.call_client(&[&arguments, &[IMAGE][..], &WAIT].concat());
        if !is_cgroup_v2() {
            assert_ne!(ended.code, Some(0));
            let expected = "unified[memory.high] (set by plugin \"90-memory-qos\")";
            assert!(ended.err().contains(expected), "{}", ended.err());
            return;
        }
        ended.success();
        let web = policy.engine.process_of("web");
        assert_eq!(web.limit("memory", "", "memory.max"), "67108864");
        assert_eq!(web.limit("memory", "", "memory.high"), "33554432");
        assert_eq!(web.limit("memory", "", "memory.swap.max"), "max");
    });
}
