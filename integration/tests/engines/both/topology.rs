//! The plugin `topology` with Docker and Podman: CPUs of containers by annotation and by label, as
//! the kernel has them, through restarts of the plugin, of `nrid` and of the engine.

use super::policies::Managed;
use crate::adjusted::*;
use nri_integration::{engines::*, *};
use rustix::process::Signal;
use serde_json::Value;
use std::{collections::BTreeSet, fs, os::unix::fs::symlink, process::Command};

test_both! {
    exclusive_cpus_survive_restarts_and_return_to_the_others,
    containers_that_cannot_be_satisfied_are_refused_with_the_reason,
    containers_at_the_root_are_handled_as_others,
}

const PLUGIN: &str = "10-topology";

/// An engine whose `nrid` launches the plugin with the privileges of a new installation.
struct Placed<E> {
    engine: E,
    /// CPUs of the machine.
    all: BTreeSet<usize>,
}

/// Runs a test with an engine of each suite.
fn with_plugin<E: Managed>(name: &str, test: impl Fn(&Placed<E>, &str)) {
    let name = format!("{} topology {name}", E::NAME);
    if !has_cpusets() {
        return limitation(&name, "no controller cpuset");
    }
    let all = numbers(fs::read_to_string("/sys/devices/system/cpu/online").unwrap().trim());
    if all.len() < 2 {
        return limitation(&name, "a machine with one CPU has none to give away");
    }
    for_each_suite(&name, E::PROGRAM, |suite| {
        let engine = E::start(suite);
        engine.configure(
            "plugin = [{ match = '*', capabilities = [], no_new_privs = true }]\n\
             pods.annotations_from_labels = ['nri-topology/']\n",
        );
        let policy = format!(
            "socket = {:?}\nrequests_from = ['annotation', 'label']\n[class.batch]\nidle = true\n",
            engine.path("topology.sock")
        );
        fs::write(engine.path("conf.d").join(format!("{PLUGIN}.conf")), policy).unwrap();
        symlink(engine.program("nri-topology"), engine.path("plugins").join(PLUGIN)).unwrap();
        engine.ctl(&["start"]).success();
        test(&Placed { engine, all: all.clone() }, &name);
    });
}

impl<E: Managed> Placed<E> {
    fn run(&self, name: &str, options: &[&str]) {
        let options = [&["--network=none"], options, &[IMAGE], &WAIT].concat();
        self.engine.run_detached(name, &options);
    }

    /// Returns the containers of `nri-topology status --json`, in the order of their names.
    fn status(&self) -> Option<Vec<Value>> {
        let mut command = Command::new(self.engine.program("nri-topology"));
        command.args(["status", "--json", "--from"]).arg(self.engine.path("topology.sock"));
        let ended = self.engine.run(command);
        let status: Value = (ended.code == Some(0))
            .then(|| serde_json::from_str(&ended.out()).expect("the status is JSON"))?;
        Some(status["containers"].as_array()?.clone())
    }

    /// Checks that exactly these containers exist, each with a kind and a number of CPUs; that the
    /// plugin, the kernel and `nrictl verify` agree on their CPUs; and that exclusive ones are
    /// those of no other container.
    #[track_caller]
    fn check(&self, expected: &[(&str, &str, usize)]) {
        // `nrid` updates other containers when the engine has already removed one.
        let containers = wait_until(format_args!("the kernel to have {expected:?}"), || {
            let containers = self.status()?;
            let text = |c: &Value, key: &str| c[key].as_str().unwrap_or_default().to_owned();
            let agreed = containers.iter().all(|container| {
                let process = self.engine.process_of(&text(container, "name"));
                let file = |name: &str| process.limit("cpuset", name, name);
                file("cpuset.cpus") == text(container, "cpus")
                    && file("cpuset.mems") == text(container, "memory_nodes")
                    && allowed(process) == numbers(&text(container, "cpus"))
            });
            let found = containers.iter().map(|container| {
                let cpus = numbers(&text(container, "cpus"));
                (text(container, "name"), text(container, "kind"), cpus)
            });
            let found: Vec<_> = found.collect();
            let is_expected = found.iter().map(|(name, kind, cpus)| (&**name, &**kind, cpus.len()));
            (agreed && is_expected.eq(expected.iter().copied())).then_some(found)
        });
        for (name, _, own) in containers.iter().filter(|(_, kind, _)| kind == "exclusive") {
            let others = containers.iter().filter(|(other, ..)| other != name);
            let mut others = others.map(|(other, _, cpus)| (other, cpus));
            let shared = others.find(|(_, cpus)| !cpus.is_disjoint(own));
            assert_eq!(shared, None, "CPUs {own:?} of {name}");
        }
        self.engine.ctl(&["verify"]).success();
    }

    /// The process of the active plugin, if it is not `previous`.
    fn plugin(&self, previous: Option<Process>) -> Process {
        wait_until("the plugin to be active", || {
            let status = self.engine.status()?;
            let plugin = status["plugins"].as_array()?.iter().find(|p| p["name"] == PLUGIN)?;
            let process = Process(u32::try_from(plugin["pid"].as_u64()?).ok()?);
            let is_other = previous.is_none_or(|previous| previous.0 != process.0);
            (plugin["state"] == "active" && is_other).then_some(process)
        })
    }
}

/// Returns the CPUs on which the scheduler lets a process run.
fn allowed(process: ContainerProcess) -> BTreeSet<usize> {
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.0)).unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    numbers(list.trim())
}

/// Returns the numbers of a list of the kernel.
fn numbers(list: &str) -> BTreeSet<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse::<usize>().unwrap()
    };
    list.split(',').filter(|part| !part.is_empty()).flat_map(range).collect()
}

/// Whether the engine's `run` has `--annotation`.
fn has_annotations<E: Managed>(suite: &Suite) -> bool {
    E::PROGRAM != "dockerd" || suite.version(E::PROGRAM) >= (24, 0)
}

fn exclusive_cpus_survive_restarts_and_return_to_the_others<E: Managed>() {
    with_plugin::<E>("restarts", |placed: &Placed<E>, name| {
        let Placed { engine, all } = placed;
        let hides_labels = super::labels::hides_labels::<E>(engine.suite());
        if hides_labels {
            limitation(name, "the labels of this Podman are in a BoltDB");
        }
        let has_option = |option: &&str| match *option {
            "--annotation" => has_annotations::<E>(engine.suite()),
            _ => !hides_labels,
        };
        let options = ["--annotation", "--label"].into_iter().filter(has_option);
        let alone = [("web", "shared", all.len())];
        let both = [("db", "exclusive", 1), ("web", "shared", all.len() - 1)];
        let restarts: [&dyn Fn(); 4] = [
            &|| {
                let before = placed.plugin(None);
                before.signal(Signal::KILL);
                placed.plugin(Some(before));
            },
            &|| {
                engine.ctl(&["stop"]).success();
                engine.ctl(&["start"]).success();
            },
            &|| {
                engine.kill_nrid();
                engine.ctl(&["start"]).success();
            },
            &|| engine.restart(),
        ];
        placed.run("web", &[]);
        placed.check(&alone);
        for option in options {
            placed.run("db", &[option, "nri-topology/cpus=1"]);
            placed.check(&both);
            let cpus = allowed(engine.process_of("db"));
            for restart in restarts {
                restart();
                placed.check(&both);
                assert_eq!(allowed(engine.process_of("db")), cpus, "the exclusive CPUs changed");
            }
            // The class decides, not the update. The limit is written as it is requested.
            engine.out(&["update", "--cpuset-cpus", "0", "--cpu-shares", "512", "web"]);
            placed.check(&both);
            engine.out(&["rm", "--force", "db"]);
            placed.check(&alone);
        }
    });
}

fn containers_that_cannot_be_satisfied_are_refused_with_the_reason<E: Managed>() {
    with_plugin::<E>("refusals", |placed: &Placed<E>, _| {
        placed.run("web", &[]);
        let count = placed.all.len();
        for (annotation, reason) in [
            (
                format!("nri-topology/cpus={count}"),
                format!("class \"exclusive\": {count} exclusive CPUs are wanted, and"),
            ),
            (
                "nri-topology/class=none".to_owned(),
                "nri-topology/class is \"none\", but the policy has no such class".to_owned(),
            ),
        ] {
            let option = if has_annotations::<E>(placed.engine.suite()) {
                "--annotation"
            } else {
                "--label"
            };
            let arguments = [option, &annotation, IMAGE, "true"];
            let ended = placed.engine.run_with("nri", &arguments);
            assert_eq!(ended.code, Some(E::RUNTIME_FAILED), "{}", ended.err());
            assert!(ended.err().contains(&reason), "{}", ended.err());
        }
        placed.check(&[("web", "shared", count)]);
    });
}

/// What an engine does with a container whose cgroup is not below its own: statistics, updates,
/// processes, restarts, and its removal. An idle one uses the exclusive CPU, too.
fn containers_at_the_root_are_handled_as_others<E: Managed>() {
    with_plugin::<E>("cgroups", |placed: &Placed<E>, name| {
        let Placed { engine, all } = placed;
        if !has_annotations::<E>(engine.suite()) {
            return limitation(name, "this Docker has no --annotation");
        }
        placed.run("batch", &["--annotation", "nri-topology/class=batch"]);
        placed.run("db", &["--annotation", "nri-topology/cpus=1", "--memory", "128m"]);
        let id = engine.out(&["inspect", "--format", "{{.Id}}", "db"]);
        let cpu = |name: &str, v1: &str, v2: &str| {
            let process = engine.process_of(name);
            let dir = process.cgroup("cpu");
            let is_at_root = dir.ancestors().nth(1) == Some(&cgroup_root("cpu"));
            assert!(is_at_root, "{}", dir.display());
            process.limit("cpu", v1, v2)
        };
        for restart in [false, true] {
            if restart {
                engine.out(&["restart", "--time", "0", "db"]);
            }
            let shares = if is_cgroup_v2() { "10000" } else { "262144" };
            assert_eq!(cpu("db", "cpu.shares", "cpu.weight"), shares);
            assert_eq!(cpu("batch", "cpu.idle", "cpu.idle"), "1");
            assert_eq!(allowed(engine.process_of("db")).len(), 1);
            assert_eq!(allowed(engine.process_of("batch")), *all);
        }
        let format = ["--no-stream", "--format", "{{.MemUsage}}"];
        let stats = engine.out(&[&["stats"], &format[..], &["db"]].concat());
        let has_limit = ["128MiB", "134.2MB"].iter().any(|limit| stats.ends_with(limit));
        assert!(!stats.starts_with('0') && has_limit, "{stats}");
        engine.out(&["update", "--memory", "64m", "--memory-swap", "64m", "db"]);
        let limit = engine.process_of("db").limit("memory", "memory.limit_in_bytes", "memory.max");
        assert_eq!(limit, (64 << 20).to_string());
        let exec = engine.out(&["exec", "db", "grep", "Cpus_allowed_list", "/proc/self/status"]);
        assert_eq!(exec.split_whitespace().count(), 2, "{exec}");
        engine.out(&["rm", "--force", "db"]);
        wait_until("the cgroups to be removed", || cgroups_of(&id).is_empty().then_some(()));
        engine.ctl(&["verify"]).success();
    });
}
