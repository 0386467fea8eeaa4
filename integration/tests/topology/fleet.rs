//! Containers on a node with the plugin, random events, and the comparison with the kernel.

use nri_integration::*;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::symlink,
};

/// Most containers that exist at a time.
const MOST: usize = 10;

pub(crate) struct Fleet {
    pub(crate) node: Node,
    /// Ids of the containers.
    ids: Vec<String>,
    pub(crate) created: usize,
    refused: usize,
    updates: usize,
    restarts: usize,
    pub(crate) exclusive: usize,
    pub(crate) shared: usize,
    random: u64,
}

impl Fleet {
    /// Starts `nrid`, which launches the plugin.
    pub(crate) fn new(runtime: &Runtime, policy: &str) -> Self {
        let fleet = Self::without_plugin(runtime, policy);
        fleet.add_plugin();
        fleet.node.ctl(&["start"]).success();
        fleet
    }

    /// Lets the next `nrid` launch the plugin.
    pub(crate) fn add_plugin(&self) {
        let link = self.node.path("plugins/10-topology");
        symlink(program_dir().join("nri-topology"), link).unwrap();
    }

    /// Prepares a node with the policy, and without the plugin.
    pub(crate) fn without_plugin(runtime: &Runtime, policy: &str) -> Self {
        let node = Node::new(runtime);
        let socket = node.path("topology.sock");
        let policy = format!("socket = {socket:?}\n{policy}");
        fs::write(node.path("conf.d/10-topology.conf"), policy).unwrap();
        Self {
            node,
            ids: Vec::new(),
            created: 0,
            refused: 0,
            updates: 0,
            restarts: 0,
            exclusive: 0,
            shared: 0,
            random: 1,
        }
    }

    /// Calls the program of the plugin.
    pub(crate) fn plugin(&self, arguments: &[&str]) -> Ended {
        let mut command = std::process::Command::new(program_dir().join("nri-topology"));
        command.args(arguments);
        if arguments.first() == Some(&"status") {
            command.arg("--from").arg(self.node.path("topology.sock"));
        }
        self.node.run(command)
    }

    /// Returns `nri-topology status --json`.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.plugin(&["status", "--json"]).success().out()).unwrap()
    }

    pub(crate) fn summary(&self) -> String {
        let Self { created, refused, updates, restarts, exclusive, shared, .. } = self;
        format!(
            "{created} containers, {refused} refused, {updates} updates, {restarts} restarts; \
             {exclusive} times exclusive and {shared} times shared CPUs read back"
        )
    }

    /// Returns a number below `end`. The sequence is the same in each run.
    fn below(&mut self, end: usize) -> usize {
        self.random =
            self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.random >> 33) as usize) % end
    }

    pub(crate) fn random_event(&mut self) {
        match self.below(10) {
            _ if self.ids.is_empty() => self.create(),
            0 if self.created.is_multiple_of(3) => self.restart(),
            1 => self.update(),
            2..6 => self.delete(),
            _ if self.ids.len() >= MOST => self.delete(),
            _ => self.create(),
        }
    }

    fn create(&mut self) {
        let id = self.node.id(&self.created.to_string());
        let cpus = self.below(4);
        let class = ["", "own", "soft", "near", "node", "batch", "exclusive"][self.below(7)];
        let mut bundle = self.node.bundle(&id);
        if !class.is_empty() {
            bundle = bundle.annotation(&format!("nri-topology/class={class}"));
        }
        if cpus > 0 {
            let quota = cpus * 100_000;
            let cpu = format!("{{\"cpu\": {{\"quota\": {quota}, \"period\": 100000}}}}");
            bundle = bundle.resources(&cpu);
        }
        let ended = self.node.create(&bundle.make(), &id);
        self.created += 1;
        // In a guest, these take many minutes.
        if self.created.is_multiple_of(10) {
            println!("{}", self.summary());
        }
        if ended.code == Some(0) {
            self.ids.push(id);
        } else {
            let line = ended.refusal();
            assert!(line.contains("topology: class"), "{line}");
            self.refused += 1;
        }
    }

    fn update(&mut self) {
        let index = self.below(self.ids.len());
        let id = self.ids[index].clone();
        let quota = ((1 + self.below(3)) * 100_000).to_string();
        let ended = self.node.call(&["update", "--cpu-quota", &quota, &id]);
        if ended.code != Some(0) {
            assert!(ended.err().contains("topology: class"), "{}", ended.err());
        }
        self.updates += 1;
    }

    fn delete(&mut self) {
        let index = self.below(self.ids.len());
        let id = self.ids.swap_remove(index);
        self.node.call(&["delete", "--force", &id]).success();
    }

    /// Kills `nrid`, which ends the plugin. The next ones know what these knew.
    pub(crate) fn restart(&mut self) {
        self.check();
        let before = self.status();
        self.node.kill_nrid();
        self.node.ctl(&["start"]).success();
        self.restarts += 1;
        self.check();
        let after = self.status();
        for (old, new) in [("shared", "shared"), ("containers", "containers")] {
            assert_eq!(without_reasons(&before[old]), without_reasons(&after[new]));
        }
    }

    /// Checks that the kernel has what the plugin says, and that this is right.
    pub(crate) fn check(&mut self) {
        // After a deletion, `nrid` updates other containers when the wrapper has already returned.
        let containers = wait_until("the cgroups that the plugin wants", || self.compared());
        let mut owners = BTreeMap::<usize, String>::new();
        for (id, kind, cpus) in &containers {
            if kind == "exclusive" {
                self.exclusive += 1;
                for cpu in cpus {
                    assert_eq!(owners.insert(*cpu, id.clone()), None, "CPU {cpu} of {id}");
                }
            }
        }
        for (id, _, cpus) in containers.iter().filter(|(_, kind, _)| kind == "shared") {
            self.shared += 1;
            assert!(!cpus.is_empty());
            let of_others: Vec<_> = cpus.iter().filter_map(|cpu| owners.get(cpu)).collect();
            assert!(of_others.is_empty(), "{id} uses CPUs of {of_others:?}");
        }
    }

    /// Returns id, kind and CPUs of all containers if the kernel has what the plugin says.
    fn compared(&self) -> Option<Vec<(String, String, BTreeSet<usize>)>> {
        let status = self.status();
        let containers = status["containers"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        // Others get what an update gives up when the plugin has been notified of it.
        let keeps =
            |c: &Value| c["reason"].as_str().is_some_and(|why| why.contains("may still use"));
        if containers.iter().any(keeps) {
            return None;
        }
        let mut ids: Vec<String> = containers.iter().map(|c| text(&c["id"])).collect();
        let mut expected = self.ids.clone();
        ids.sort();
        expected.sort();
        if ids != expected {
            return None;
        }
        let compared = containers.iter().map(|container| {
            let id = text(&container["id"]);
            let file = |name: &str| {
                let v1 = format!("cpuset.{name}");
                self.node.cgroup_file(&id, "cpuset", &v1, &v1)
            };
            let same = file("cpus") == text(&container["cpus"])
                && file("mems") == text(&container["memory_nodes"]);
            same.then(|| (id.clone(), text(&container["kind"]), numbers(&file("cpus"))))
        });
        compared.collect()
    }
}

/// Returns containers without the reasons, which a restart may word in another way.
fn without_reasons(value: &Value) -> Value {
    let mut value = value.clone();
    for container in value.as_array_mut().into_iter().flatten() {
        container["reason"] = Value::Null;
    }
    value
}

/// Returns the numbers of a list of the kernel.
pub(crate) fn numbers(list: &str) -> BTreeSet<usize> {
    let parts = list.split(',').filter(|part| !part.is_empty());
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        first.parse().unwrap()..=last.parse::<usize>().unwrap()
    };
    parts.flat_map(range).collect()
}
