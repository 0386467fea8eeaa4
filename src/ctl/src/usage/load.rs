//! The load of a node: what its containers use, and how often its plugins are called.

use crate::{
    error::CtlError,
    nrid,
    nrid_location::NridLocation,
    status::duration,
    table::TextTable,
    units,
    usage::{
        cgroup::{ContainerCgroup, Measured},
        stats::percent,
    },
    views::{DescribeClient, short_id, state},
};
use nri_control::{ContainerSummary, PluginStatus, Status};
use serde_json::{Value, json};
use std::{cmp::Ordering, collections::HashMap, time::Instant};

/// Length to which names are cut on a screen. With the other columns it fits 80 columns.
const NAME_WIDTH: usize = 20;

/// A column to sort by: numbers from the largest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum SortKey {
    /// Use of CPUs
    Cpu,
    /// Memory
    Memory,
    /// Number of processes and threads
    Pids,
    /// Name
    Name,
}

impl SortKey {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Cpu => Self::Memory,
            Self::Memory => Self::Pids,
            Self::Pids => Self::Name,
            Self::Name => Self::Cpu,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Name => "name",
        }
    }
}

/// A container and what it uses.
#[derive(Debug, Clone)]
struct ContainerLoad {
    container: ContainerSummary,
    state: String,
    cpu_percent: Measured<f64>,
    memory: Measured<u64>,
    memory_limit: Measured<Option<u64>>,
    pids: Measured<u64>,
}

/// A plugin and how often it is called.
#[derive(Debug)]
struct PluginLoad {
    plugin: PluginStatus,
    /// `None` if `nrid` does not count calls.
    calls_per_second: Option<f64>,
}

/// All that is shown.
#[derive(Debug)]
pub(super) struct Load {
    status: Box<Status>,
    plugins: Vec<PluginLoad>,
    containers: Vec<ContainerLoad>,
}

/// The counters of the last refresh.
#[derive(Debug)]
pub(super) struct Counters {
    at: Instant,
    /// CPU times in microseconds, by runtime id and time of the creation.
    cpu: HashMap<(String, i64), u64>,
    /// Calls of plugins, by name.
    calls: HashMap<String, u64>,
}

/// Returns the lines of a table. On a screen, the terminal cuts lines that are too long.
fn table<const N: usize, const M: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    numbers: &[usize; M],
    on_screen: bool,
) -> Vec<String> {
    let mut table = if on_screen { TextTable::unwrapped() } else { TextTable::new(0) };
    table.row(header);
    rows.for_each(|row| table.row(row));
    numbers.iter().for_each(|column| table.align_right(*column));
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _ = table.write(&mut bytes);
    String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()
}

/// Cuts a name that is longer than a column of a screen.
fn cut(name: &str) -> String {
    match name.char_indices().nth(NAME_WIDTH) {
        None => name.to_owned(),
        Some(_) => name.chars().take(NAME_WIDTH - 1).chain(['…']).collect(),
    }
}

/// Identity of a container: an id may be used again.
fn identity(container: &ContainerSummary) -> (String, i64) {
    (container.id.clone(), container.created)
}

impl Counters {
    /// Requests status and containers, and reads the CPU times.
    pub(super) fn read(
        nrid: &NridLocation,
    ) -> Result<(Self, Box<Status>, Vec<ContainerSummary>), CtlError> {
        let mut client = DescribeClient::connect(nrid)?;
        let mut containers = client.containers()?;
        containers.retain(|container| container.state != "stopped");
        let not_running = || CtlError::NotRunning(nrid.launcher.socket());
        let status = nrid::status(&nrid::connect(nrid)?.ok_or_else(not_running)?)?;
        let cpu = containers.iter().filter_map(|container| {
            let usage = ContainerCgroup(&container.cgroups).cpu_usage().ok()?;
            Some((identity(container), usage))
        });
        let calls = status
            .plugins
            .iter()
            .filter_map(|plugin| Some((plugin.name.clone(), plugin.calls.as_ref()?.total.calls)));
        let counters = Self { cpu: cpu.collect(), calls: calls.collect(), at: Instant::now() };
        Ok((counters, status, containers))
    }
}

impl Load {
    pub(super) fn new(
        status: Box<Status>,
        containers: Vec<ContainerSummary>,
        before: &Counters,
        now: &Counters,
    ) -> Self {
        let elapsed = now.at.saturating_duration_since(before.at);
        let plugins = status.plugins.iter().map(|plugin| {
            let calls = now.calls.get(&plugin.name);
            let calls_per_second = calls.filter(|_| !elapsed.is_zero()).map(|calls| {
                let before = before.calls.get(&plugin.name).copied().unwrap_or_default();
                calls.saturating_sub(before) as f64 / elapsed.as_secs_f64()
            });
            PluginLoad { plugin: plugin.clone(), calls_per_second }
        });
        let plugins = plugins.collect();
        let containers = containers.into_iter().map(|container| {
            let cgroup = ContainerCgroup(&container.cgroups);
            let identity = identity(&container);
            let cpu_percent = match (before.cpu.get(&identity), now.cpu.get(&identity)) {
                (Some(before), Some(now)) => Ok(percent(now.saturating_sub(*before), elapsed)),
                (None, Some(_)) => Err("the container is new".to_owned()),
                (_, None) => cgroup.cpu_usage().map(|_| 0.0),
            };
            let (memory, memory_limit) = (cgroup.memory_usage(), cgroup.memory_limit());
            let pids = cgroup.pids();
            let state = state(&container).to_owned();
            ContainerLoad { cpu_percent, memory, memory_limit, pids, state, container }
        });
        Self { plugins, containers: containers.collect(), status }
    }

    /// Sorts the containers; what is not available comes last.
    pub(super) fn sort(&mut self, key: SortKey) {
        let name = |load: &ContainerLoad| load.name().to_owned();
        self.containers.sort_by(|a, b| {
            let order = match key {
                SortKey::Cpu => descending(&a.cpu_percent, &b.cpu_percent, f64::total_cmp),
                SortKey::Memory => descending(&a.memory, &b.memory, u64::cmp),
                SortKey::Pids => descending(&a.pids, &b.pids, u64::cmp),
                SortKey::Name => Ordering::Equal,
            };
            order.then_with(|| name(a).cmp(&name(b)))
        });
    }

    /// Returns the text: on a screen, the lines that fit these rows.
    pub(super) fn lines(&self, sort: SortKey, rows: Option<usize>) -> Vec<String> {
        let Status { version, uptime, pods, containers, .. } = &*self.status;
        let up = duration(*uptime);
        let (containers, pods) =
            (units::counted(*containers, "container"), units::counted(*pods, "pod"));
        let mut text = vec![format!("nrid {version}, up {up}: {containers}, {pods}")];
        if rows.is_some() {
            text.push(format!("sorted by {}  s: sort by another column  q: quit", sort.name()));
        }
        if !self.plugins.is_empty() {
            let header = ["PLUGIN", "STATE", "CALLS/S", "FAILED", "P99", "MEMORY"];
            let cells = self.plugins.iter().map(PluginLoad::cells);
            text.push(String::new());
            text.extend(table(header, cells, &[2, 3, 4, 5], rows.is_some()));
        }
        text.push(String::new());
        // One row is for the header.
        let left = rows.map_or(usize::MAX, |rows| rows.saturating_sub(text.len() + 1));
        let count = self.containers.len();
        // And one for the line that counts the others.
        let shown = if count > left { left.saturating_sub(1) } else { count };
        let header = ["CONTAINER", "NAME", "STATE", "CPU", "MEMORY", "LIMIT", "PIDS", "PLUGINS"];
        let cells = self.containers[..shown].iter().map(|load| load.cells(rows.is_some()));
        text.extend(table(header, cells, &[3, 4, 5, 6], rows.is_some()));
        if shown < count {
            text.push(format!("… {} more", count - shown));
        }
        text.truncate(rows.unwrap_or(usize::MAX));
        text
    }

    pub(super) fn to_json(&self) -> Value {
        let plugins = self.plugins.iter().map(|PluginLoad { plugin, calls_per_second }| {
            json!({
                "name": plugin.name,
                "state": plugin.state,
                "calls_per_second": calls_per_second,
                "failures": plugin.calls.as_ref().map(|calls| calls.total.failures),
                "p99_us": plugin.calls.as_ref().and_then(|calls| calls.total.p99_us),
                "memory_bytes": plugin.memory,
            })
        });
        let containers = self.containers.iter().map(|load| {
            json!({
                "id": load.container.id,
                "name": load.container.name,
                "engine": load.container.engine,
                "pod": load.container.pod,
                "state": load.state,
                "cpu_percent": load.cpu_percent.as_ref().ok(),
                "memory_bytes": load.memory.as_ref().ok(),
                "memory_limit_bytes": load.memory_limit.as_ref().ok().map(|limit| {
                    limit.map_or(json!("max"), |limit| json!(limit))
                }),
                "pids": load.pids.as_ref().ok(),
                "adjusted_by": load.container.adjusted_by,
            })
        });
        json!({
            "plugins": plugins.collect::<Vec<_>>(),
            "containers": containers.collect::<Vec<_>>(),
        })
    }
}

/// Compares values from the largest on; what is not available comes last.
fn descending<T>(
    a: &Measured<T>,
    b: &Measured<T>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Ordering {
    match (a, b) {
        (Ok(a), Ok(b)) => compare(b, a),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => Ordering::Equal,
    }
}

fn or_dash<T>(value: Option<T>, to_text: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), to_text)
}

impl PluginLoad {
    fn cells(&self) -> [String; 6] {
        let Self { plugin, calls_per_second } = self;
        let total = plugin.calls.as_ref().map(|calls| calls.total);
        [
            or_dash(Some(&plugin.name).filter(|name| !name.is_empty()), String::clone),
            plugin.state.clone(),
            or_dash(*calls_per_second, |calls| format!("{calls:.1}")),
            or_dash(total, |total| total.failures.to_string()),
            or_dash(total.and_then(|total| total.p99_us), units::time),
            or_dash(plugin.memory, units::memory),
        ]
    }
}

impl ContainerLoad {
    /// The name, or else the id.
    fn name(&self) -> &str {
        let name = &self.container.name;
        if name.is_empty() { &self.container.id } else { name }
    }

    fn cells(&self, on_screen: bool) -> [String; 8] {
        let container = &self.container;
        let limit = self.memory_limit.as_ref().ok();
        let plugins = &container.adjusted_by;
        let text = |text: &String| if on_screen { cut(text) } else { text.clone() };
        [
            text(&short_id(&container.id, false).to_owned()),
            or_dash(Some(&container.name).filter(|name| !name.is_empty()), text),
            self.state.clone(),
            or_dash(self.cpu_percent.as_ref().ok(), |percent| format!("{percent:.1} %")),
            or_dash(self.memory.as_ref().ok(), |bytes| units::memory(*bytes)),
            or_dash(limit, |limit| limit.map_or("none".to_owned(), units::memory)),
            or_dash(self.pids.as_ref().ok(), u64::to_string),
            or_dash(Some(plugins).filter(|names| !names.is_empty()), |names| names.join(" ")),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_control::{CallCounts, CgroupPaths, PluginCalls};
    use nri_files::OsText;
    use std::{fs, time::Duration};

    fn container(dir: &std::path::Path, id: &str, memory: u64) -> ContainerSummary {
        let dir = dir.join(id);
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("memory.current"), memory.to_string()).unwrap();
        fs::write(dir.join("memory.max"), "max\n").unwrap();
        fs::write(dir.join("pids.current"), "3\n").unwrap();
        ContainerSummary {
            id: id.to_owned(),
            name: format!("name-of-{id}"),
            state: "running".to_owned(),
            adjusted_by: vec!["10-a".to_owned()],
            cgroups: CgroupPaths { v2: Some(OsText::from(&dir)), ..CgroupPaths::default() },
            ..ContainerSummary::default()
        }
    }

    fn counters(at: Instant, cpu: &[(&str, u64)], calls: u64) -> Counters {
        let cpu = cpu.iter().map(|(id, cpu)| (((*id).to_owned(), 0), *cpu));
        Counters { at, cpu: cpu.collect(), calls: [("10-a".to_owned(), calls)].into() }
    }

    fn load(dir: &std::path::Path) -> Load {
        let plugin = |name: &str, calls: Option<PluginCalls>| PluginStatus {
            name: name.to_owned(),
            state: "active".to_owned(),
            memory: Some(1 << 20),
            calls: calls.map(Box::new),
            ..PluginStatus::default()
        };
        let total = CallCounts { calls: 30, failures: 1, p99_us: Some(250), ..Default::default() };
        let calls = PluginCalls { total, ..PluginCalls::default() };
        let status = Status {
            version: "0.1.0".to_owned(),
            uptime: 60,
            pods: 2,
            containers: 3,
            plugins: vec![plugin("10-a", Some(calls)), plugin("20-b", None)],
            ..Status::default()
        };
        let containers = vec![
            container(dir, "c1", 5 << 20),
            container(dir, "c2", 7 << 20),
            ContainerSummary { id: "c3".to_owned(), ..ContainerSummary::default() },
        ];
        let began = Instant::now();
        let before = counters(began, &[("c1", 0), ("c2", 10)], 10);
        let after = began + Duration::from_secs(2);
        let now = counters(after, &[("c1", 1_000_000), ("c2", 10)], 30);
        Load::new(Box::new(status), containers, &before, &now)
    }

    fn ids(load: &mut Load, key: SortKey) -> Vec<String> {
        load.sort(key);
        load.containers.iter().map(|load| load.container.id.clone()).collect()
    }

    #[test]
    fn loads_are_differences_of_counters() {
        let dir = tempfile::tempdir().unwrap();
        let mut load = load(dir.path());
        assert_eq!(ids(&mut load, SortKey::Cpu), ["c1", "c2", "c3"]);
        assert_eq!(
            load.lines(SortKey::Cpu, Some(24)).join("\n"),
            "nrid 0.1.0, up 1 min: 3 containers, 2 pods\n\
             sorted by cpu  s: sort by another column  q: quit\n\
             \n\
             PLUGIN  STATE   CALLS/S  FAILED     P99  MEMORY\n\
             10-a    active     10.0       1  250 µs   1 MiB\n\
             20-b    active        -       -       -   1 MiB\n\
             \n\
             CONTAINER  NAME        STATE       CPU  MEMORY  LIMIT  PIDS  PLUGINS\n\
             c1         name-of-c1  running  50.0 %   5 MiB   none     3  10-a\n\
             c2         name-of-c2  running   0.0 %   7 MiB   none     3  10-a\n\
             c3         -                         -       -      -     -  -"
        );
        let value = load.to_json();
        assert_eq!(
            value["plugins"][0],
            json!({
                "name": "10-a", "state": "active", "calls_per_second": 10.0, "failures": 1,
                "p99_us": 250, "memory_bytes": 1 << 20
            })
        );
        assert_eq!(
            value["containers"][0],
            json!({
                "id": "c1", "name": "name-of-c1", "engine": "", "pod": "", "state": "running",
                "cpu_percent": 50.0, "memory_bytes": 5 << 20, "memory_limit_bytes": "max",
                "pids": 3, "adjusted_by": ["10-a"]
            })
        );
        assert_eq!(value["containers"][2]["cpu_percent"], Value::Null);
    }

    #[test]
    fn what_is_not_available_is_sorted_last() {
        let dir = tempfile::tempdir().unwrap();
        let mut load = load(dir.path());
        assert_eq!(ids(&mut load, SortKey::Memory), ["c2", "c1", "c3"]);
        assert_eq!(ids(&mut load, SortKey::Pids), ["c1", "c2", "c3"]);
        assert_eq!(ids(&mut load, SortKey::Name), ["c3", "c1", "c2"]);
        let keys = [SortKey::Cpu.next(), SortKey::Memory.next(), SortKey::Pids.next()];
        assert_eq!(keys, [SortKey::Memory, SortKey::Pids, SortKey::Name]);
        assert_eq!(SortKey::Name.next(), SortKey::Cpu);
    }

    #[test]
    fn containers_that_do_not_fit_the_screen_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let load = load(dir.path());
        let shown = |rows| load.lines(SortKey::Cpu, Some(rows));
        assert_eq!(shown(11).len(), 11);
        assert!(shown(11)[10].starts_with("c3 "), "{:?}", shown(11));
        assert_eq!(shown(10)[8..], [shown(11)[8].clone(), "… 2 more".to_owned()]);
        for rows in 0..12 {
            assert!(shown(rows).len() <= rows, "{rows}");
        }
    }

    #[test]
    fn rows_of_usual_containers_fit_80_columns() {
        let load = ContainerLoad {
            container: ContainerSummary {
                id: "a".repeat(64),
                name: "a-long-name-of-a-container-in-a-pod".to_owned(),
                ..ContainerSummary::default()
            },
            state: "running".to_owned(),
            cpu_percent: Ok(1234.5),
            memory: Ok(1023 << 20),
            memory_limit: Ok(Some(1023 << 20)),
            pids: Ok(12345),
        };
        let header = ["CONTAINER", "NAME", "STATE", "CPU", "MEMORY", "LIMIT", "PIDS", ""];
        let mut cells = load.cells(true);
        cells[7].clear();
        let lines = table(header, [cells].into_iter(), &[3, 4, 5, 6], true);
        assert!(lines[1].contains("a-long-name-of-a-co…"), "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{lines:?}");
    }
}
