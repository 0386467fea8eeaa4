//! What `docker run` gets for each way, and the files of the plugins.

use crate::{cell::Way, cpus::Cpus};

/// Policy of `topology`, as `docs/topology.md` advises for a service beside batch work.
pub(crate) const POLICY: &str = r#"
[class.batch]
idle = true

[[rule]]
class = "batch"
name = "batch-*"
"#;

/// Rules that give the weights of [`Way::CpuShares`] by label.
pub(crate) const RULES: &str = r#"rules:
  - name: service
    match: '"role" in labels && labels["role"] == "service"'
    set: { cpu.shares: 10240 }
  - name: batch
    match: '"role" in labels && labels["role"] == "batch"'
    set: { cpu.shares: 2 }
"#;

/// Runtimes of Docker that have the plugins.
pub(crate) const TOPOLOGY: &str = "topology";
pub(crate) const RULES_RUNTIME: &str = "rules";

/// Returns the options of the service. `parent` is the path of a cgroup of its own.
pub(crate) fn of_service(way: Way, cpus: &Cpus, parent: &str) -> Vec<String> {
    let cpu = cpus.of_service.as_str();
    words(match way {
        Way::CpuShares => vec!["--cpu-shares", "10240"],
        Way::CpusetCpus => vec!["--cpuset-cpus", cpu],
        Way::CpusetParent | Way::CpusetIdle => {
            vec!["--cpuset-cpus", cpu, "--cgroup-parent", parent]
        }
        Way::Parent | Way::ParentIdle => vec!["--cgroup-parent", parent],
        Way::TopologyIdle => vec!["--runtime", TOPOLOGY],
        Way::Topology => vec!["--runtime", TOPOLOGY, "--annotation", "nri-topology/cpus=1"],
        Way::Rules => vec!["--runtime", RULES_RUNTIME, "--label", "role=service"],
        _ => vec![],
    })
}

/// Returns the options of each of `count` neighbours.
pub(crate) fn of_neighbour(way: Way, cpus: &Cpus, count: usize, parent: &str) -> Vec<String> {
    // Together, they leave the service a CPU.
    let limit = format!("{:.3}", (cpus.count - 1) as f64 / count as f64);
    words(match way {
        Way::Cpus => vec!["--cpus", &limit],
        Way::CpuShares => vec!["--cpu-shares", "2"],
        Way::CpusetCpus | Way::CpusetParent => vec!["--cpuset-cpus", &cpus.of_neighbours],
        Way::ParentIdle | Way::CpusetIdle => vec!["--cgroup-parent", parent],
        Way::TopologyIdle | Way::Topology => vec!["--runtime", TOPOLOGY],
        Way::Rules => vec!["--runtime", RULES_RUNTIME, "--label", "role=batch"],
        _ => vec![],
    })
}

fn words(options: Vec<&str>) -> Vec<String> {
    options.into_iter().map(str::to_owned).collect()
}
