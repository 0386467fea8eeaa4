//! The status: who has which CPUs, as a value and as a table.

use crate::{
    account::{Account, limit_name},
    allocator::Allocator,
    facts::word,
    hardware::{
        cpuset::{CpuSet, NodeSet},
        machine::{Level, Machine},
    },
    placed::{Kind, Placed},
    taken::{Taken, names},
};
use comfy_table::{ContentArrangement, Table, presets};
use nri_values::printable;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Who has which CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// All online CPUs.
    pub cpus: CpuSet,
    /// CPUs that no container gets.
    pub reserved: CpuSet,
    /// CPUs that the kernel does not schedule on by itself.
    pub isolated: CpuSet,
    /// CPUs of the shared pool.
    pub shared: CpuSet,
    /// Groups of CPUs: levels, CPUs, and the index of the group around, which comes before.
    pub domains: Vec<StatusDomain>,
    /// Memory nodes: numbers and CPUs.
    pub nodes: Vec<(usize, CpuSet)>,
    /// Containers, in the order of their names.
    pub containers: Vec<StatusContainer>,
    /// What containers have taken from all others, and what quotas allow. Those of `per` and
    /// `per_label`, and `requests_max`, only where something is taken.
    #[serde(default)]
    pub quotas: Vec<StatusQuota>,
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusQuota {
    /// Its name.
    pub name: String,
    /// How many CPUs are taken.
    pub taken: usize,
    /// How many CPUs may be taken.
    pub allowed: usize,
    /// The containers, and how many CPUs each has taken.
    pub by: Vec<(String, usize)>,
}

/// A group of CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusDomain {
    /// Its names, such as `package` and `L3`.
    pub names: Vec<String>,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// The index of the group around.
    pub parent: Option<usize>,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusContainer {
    /// Its id.
    pub id: String,
    /// Its name; its id if it has none.
    pub name: String,
    /// Its class.
    pub class: String,
    /// Whose CPUs it has.
    pub kind: Kind,
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Its memory nodes.
    pub memory_nodes: NodeSet,
    /// Why it has not what it wants.
    pub reason: Option<String>,
}

impl Status {
    /// Returns the status of a state.
    pub fn of(allocator: &Allocator) -> Self {
        let machine = allocator.machine();
        let mut containers: Vec<_> = allocator
            .containers()
            .iter()
            .map(|(id, placed)| StatusContainer {
                id: id.clone(),
                name: Some(&placed.request.name).filter(|n| !n.is_empty()).unwrap_or(id).clone(),
                class: placed.request.class.clone(),
                kind: placed.kind,
                cpus: placed.cpus.clone(),
                memory_nodes: placed.nodes.clone(),
                reason: reason(placed),
            })
            .collect();
        containers.sort_by(|a, b| (&a.name, &a.id).cmp(&(&b.name, &b.id)));
        Self {
            cpus: machine.cpus.clone(),
            reserved: allocator.reserved().clone(),
            isolated: machine.isolated.and(&machine.cpus),
            shared: allocator.pool(),
            domains: domains(machine),
            nodes: machine.nodes.iter().map(|(n, node)| (*n, node.cpus.clone())).collect(),
            containers,
            quotas: quotas(allocator),
        }
    }

    /// Adds that updates of containers have failed.
    pub fn with_failed(mut self, is_failed: impl Fn(&str) -> bool) -> Self {
        for container in self.containers.iter_mut().filter(|c| is_failed(&c.id)) {
            let failed = "an update of its CPUs has failed, it may use others".to_owned();
            container.reason = joined(container.reason.take(), Some(failed));
        }
        self
    }

    /// Returns the status as a table for terminals, with a summary above it. Names are those that
    /// users have chosen.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let mut line = |what: &str, cpus: &CpuSet| {
            if !cpus.is_empty() {
                // Writing to a String does not fail.
                let unit = if cpus.len() == 1 { "CPU" } else { "CPUs" };
                let _ = writeln!(text, "{what:<10} {cpus} ({} {unit})", cpus.len());
            }
        };
        line("Machine:", &self.cpus);
        line("Reserved:", &self.reserved);
        line("Isolated:", &self.isolated);
        line("Shared:", &self.shared);
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        table.set_header(["NAME", "CLASS", "USE", "CPUS", "NODES", "REASON"]);
        for container in &self.containers {
            let or_dash =
                |set: &CpuSet| if set.is_empty() { "-".to_owned() } else { set.to_string() };
            table.add_row([
                printable(&container.name).into_owned(),
                container.class.clone(),
                word(container.kind).to_owned(),
                or_dash(&container.cpus),
                or_dash(&container.memory_nodes),
                printable(container.reason.as_deref().unwrap_or_default()).into_owned(),
            ]);
        }
        let mut add = |table: &Table| {
            for row in table.to_string().lines() {
                let _ = writeln!(text, "{}", row.trim());
            }
        };
        add(&table);
        if !self.quotas.is_empty() {
            let mut table = Table::new();
            table.load_preset(presets::NOTHING);
            table.set_content_arrangement(ContentArrangement::Dynamic);
            table.set_header(["QUOTA", "TAKEN", "ALLOWED", "BY"]);
            for StatusQuota { name, taken, allowed, by } in &self.quotas {
                let (name, by) = (printable(name).into_owned(), names(by));
                table.add_row([
                    name,
                    taken.to_string(),
                    allowed.to_string(),
                    printable(&by).into_owned(),
                ]);
            }
            add(&table);
        }
        text
    }
}

/// Returns why a container has not what it wants, or others do not have what it gives up.
fn reason(placed: &Placed) -> Option<String> {
    let kept = (!placed.kept.is_empty()).then(|| {
        format!(
            "it may still use CPUs {}, which no other gets before they are given up",
            placed.kept
        )
    });
    joined(placed.reason.clone(), kept)
}

fn joined(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one}; {other}")),
        (one, other) => one.or(other),
    }
}

fn quotas(allocator: &Allocator) -> Vec<StatusQuota> {
    let mut taken = allocator.taken();
    for (index, quota) in allocator.policy().quotas.iter().enumerate() {
        if quota.per.is_none() && quota.per_label.is_none() {
            taken.entry(Account::Quota { index, group: String::new() }).or_default();
        }
    }
    let quota = |(account, taken): (Account, Taken)| {
        let allowed = allocator.allowed(&account)?;
        let (name, count) = (limit_name(allocator.policy(), &account), taken.cpus.len());
        Some(StatusQuota { name, taken: count, allowed, by: taken.by })
    };
    taken.into_iter().filter_map(quota).collect()
}

fn domains(machine: &Machine) -> Vec<StatusDomain> {
    let name = |level: &Level, cpus: &CpuSet| match level {
        Level::Machine => "machine".to_owned(),
        Level::Package => "package".to_owned(),
        Level::Die => "die".to_owned(),
        Level::Node => {
            let number = machine.nodes.iter().find(|(_, node)| node.cpus == *cpus);
            format!("node {}", number.map(|(number, _)| *number).unwrap_or_default())
        }
        Level::L3 => "L3".to_owned(),
        Level::Kind if machine.kinds.first().is_some_and(|fast| cpus.is_subset(fast)) => {
            "performance cores".to_owned()
        }
        Level::Kind => "efficiency cores".to_owned(),
        Level::Cluster => "cluster".to_owned(),
        Level::Core => "core".to_owned(),
    };
    machine
        .tree()
        .iter()
        .map(|domain| StatusDomain {
            names: domain.levels.iter().map(|level| name(level, &domain.cpus)).collect(),
            cpus: domain.cpus.clone(),
            parent: domain.parent,
        })
        .collect()
}
