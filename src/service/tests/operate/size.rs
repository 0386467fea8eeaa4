//! Measurement of `nrid` with many containers, for `make bench`.

#![allow(clippy::print_stdout, reason = "the result of the measurement")]

use crate::{
    containers::{Sleep, create_and_start},
    node::{Node, Nrid, example, wait_until},
};
use nri_host::sha256;
use nrid::state::key::ContainerKey;
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Number of creations whose median is shown.
const CREATIONS: usize = 200;

/// Time over which the CPU time of an idle `nrid` is measured. The same time passes before the
/// measurement, so that `nrid` is idle.
const IDLE: Duration = Duration::from_secs(20);

/// Copies the records of container and pod `c0`, until `count` containers have records. No `nrid`
/// may run meanwhile.
pub(crate) fn multiply(node: &Node, count: usize) {
    let only_record = |name: &str| {
        let path = fs::read_dir(node.state_dir().join(name)).unwrap().next().unwrap().unwrap();
        let text = fs::read_to_string(path.path()).unwrap();
        (path.path(), serde_json::from_str::<Value>(&text).unwrap())
    };
    let ((container_file, container), (pod_file, pod)) =
        (only_record("containers"), only_record("pods"));
    for n in 1..count {
        let id = format!("c{n}");
        let (mut container, mut pod) = (container.clone(), pod.clone());
        container["key"]["id"] = id.clone().into();
        container["container"]["id"] = id.clone().into();
        container["container"]["podSandboxId"] = id.clone().into();
        container["pod_id"] = id.clone().into();
        container["incarnation"] = (container["incarnation"].as_i64().unwrap() + n as i64).into();
        // Each container has its own bundle, as under engines.
        container["bundle"]["identity"][1] = (u64::MAX - n as u64).into();
        pod["sandbox"]["id"] = id.clone().into();
        let root = PathBuf::from(container["key"]["root"].as_str().unwrap());
        fs::create_dir(root.join(&id)).unwrap();
        let name = ContainerKey { root, id: id.clone() }.file_name();
        let write = |beside: &Path, name: &str, record: &Value| {
            fs::write(beside.with_file_name(format!("{name}.json")), record.to_string()).unwrap();
        };
        write(&container_file, &name, &container);
        write(&pod_file, &sha256(id.as_bytes())[..32], &pod);
    }
}

/// Returns the CPU time of all threads of a process.
fn cpu_time(pid: u32) -> Duration {
    let of_thread = |task: fs::DirEntry| {
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    Duration::from_nanos(threads.filter_map(|task| of_thread(task.unwrap())).sum())
}

/// Returns the resident memory of a process in megabytes.
fn resident(pid: u32) -> f64 {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: f64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as f64 / f64::from(1 << 20)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// A measured `nrid`, which knows many containers from their records.
struct Known {
    node: Node,
    nrid: Nrid,
    count: usize,
    /// Elapsed time and CPU time of the start.
    start: (Duration, Duration),
    creations: Vec<Duration>,
}

impl Known {
    fn start(program: &Path, process: &Sleep, count: usize) -> Self {
        // The timeouts are long because a plugin gets all containers in one event.
        let node = Node::new("plugin_request_timeout = 60\nplugin_registration_timeout = 60\n");
        let nrid = node.start_program(program);
        create_and_start(&node, "c0", process).unwrap();
        node.stop();
        nrid.wait_for_exit();
        multiply(&node, count);
        let began = Instant::now();
        let nrid = node.start_program(program);
        assert_eq!(node.status().containers, count);
        let start = (began.elapsed(), cpu_time(nrid.id()));
        Self { node, nrid, count, start, creations: Vec::new() }
    }

    fn cpu_time(&self) -> Duration {
        cpu_time(self.nrid.id())
    }

    /// Creates and starts container `n`.
    fn create(&mut self, n: usize, process: &Sleep) {
        let began = Instant::now();
        create_and_start(&self.node, &format!("n{n}"), process).unwrap();
        self.creations.push(began.elapsed());
    }

    /// Starts an external plugin; returns the time until it has got all containers.
    fn synchronize(&self) -> Duration {
        let mut command = Command::new(example("logger"));
        command.args(["--idx", "10", "--name", "a", "--socket"]);
        command.arg(self.node.state_dir().join("nri.sock"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let began = Instant::now();
        let mut plugin = command.spawn().unwrap();
        wait_until("the plugin", || {
            let plugins = self.node.status().plugins;
            plugins.iter().any(|plugin| plugin.state == "active").then_some(())
        });
        let time = began.elapsed();
        plugin.kill().unwrap();
        plugin.wait().unwrap();
        time
    }
}

/// Prints a line for each number of containers, and returns the same as JSON.
fn measure(program: &Path, sizes: &[usize]) -> Value {
    let process = Sleep::new();
    let start = |count: &usize| Known::start(program, &process, *count);
    let mut all: Vec<_> = sizes.iter().map(start).collect();
    std::thread::sleep(IDLE);
    let before: Vec<_> = all.iter().map(Known::cpu_time).collect();
    std::thread::sleep(IDLE);
    let idle: Vec<_> = all.iter().zip(before).map(|(known, cpu)| known.cpu_time() - cpu).collect();
    let before: Vec<_> = all.iter().map(Known::cpu_time).collect();
    // In turn, so that other work of the machine slows down all measured processes.
    for n in 0..CREATIONS {
        all.iter_mut().for_each(|known| known.create(n, &process));
    }
    println!(
        "containers start (ms) start CPU (ms) create+start (us) create CPU (us) \
         synchronize (ms) RSS (MB) idle CPU %"
    );
    let mut results = Vec::new();
    for ((known, cpu), idle) in all.iter_mut().zip(before).zip(idle) {
        let create_cpu = (known.cpu_time() - cpu).as_secs_f64() * 1e6 / CREATIONS as f64;
        let memory = resident(known.nrid.id());
        let idle = 100.0 * idle.as_secs_f64() / IDLE.as_secs_f64();
        let create = median(&mut known.creations).as_secs_f64() * 1e6;
        let synchronized = known.synchronize().as_secs_f64() * 1e3;
        let (count, start, start_cpu) =
            (known.count, known.start.0.as_secs_f64() * 1e3, known.start.1.as_secs_f64() * 1e3);
        println!(
            "{count:>10} {start:>10.0} {start_cpu:>14.0} {create:>17.0} {create_cpu:>15.0} \
             {synchronized:>16.0} {memory:>8.1} {idle:>10.3}"
        );
        results.push(json!({
            "containers": count, "start_ms": start, "start_cpu_ms": start_cpu, "create_us": create,
            "create_cpu_us": create_cpu, "synchronize_ms": synchronized, "resident_mb": memory,
            "idle_cpu_percent": idle,
        }));
    }
    for known in all {
        known.node.stop();
        known.nrid.wait_for_exit();
    }
    results.into()
}

/// Environment variables: `NRID` names another program to measure, `SIZES` the numbers of
/// containers, and `RESULTS` a file for the result as JSON.
#[test]
#[ignore = "a measurement of some minutes"]
fn time_and_memory_by_number_of_containers() {
    let program = std::env::var_os("NRID").unwrap_or(env!("CARGO_BIN_EXE_nrid").into());
    let sizes = std::env::var("SIZES").unwrap_or("10 1000 10000".to_owned());
    let sizes: Vec<_> = sizes.split_whitespace().map(|size| size.parse().unwrap()).collect();
    let results = measure(Path::new(&program), &sizes);
    if let Some(file) = std::env::var_os("RESULTS") {
        fs::write(file, results.to_string()).unwrap();
    }
}
