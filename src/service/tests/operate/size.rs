//! Measurement of `nrid` with many containers: `make bench-size`.

#![allow(clippy::print_stdout, reason = "the result of the measurement")]

use crate::{
    containers::{Sleep, run},
    node::{Node, wait_until},
};
use nri_host::sha256;
use nrid::state::key::ContainerKey;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Number of creations whose mean is shown.
const CREATIONS: u32 = 50;

/// Time over which the CPU time of an idle `nrid` is measured, and the time before.
const IDLE: Duration = Duration::from_secs(20);

/// Copies the records of container and pod `c0` for these many containers, while no `nrid` runs.
pub(crate) fn multiply(node: &Node, count: usize) {
    let only = |name: &str| {
        let path = fs::read_dir(node.state_dir().join(name)).unwrap().next().unwrap().unwrap();
        let text = fs::read_to_string(path.path()).unwrap();
        (path.path(), serde_json::from_str::<Value>(&text).unwrap())
    };
    let ((container_file, container), (pod_file, pod)) = (only("containers"), only("pods"));
    for n in 1..count {
        let id = format!("c{n}");
        let (mut container, mut pod) = (container.clone(), pod.clone());
        container["key"]["id"] = id.clone().into();
        container["container"]["id"] = id.clone().into();
        container["container"]["podSandboxId"] = id.clone().into();
        container["pod_id"] = id.clone().into();
        container["incarnation"] = (container["incarnation"].as_i64().unwrap() + n as i64).into();
        // A bundle of its own, as engines make.
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

/// Returns the CPU time of all threads.
fn cpu_time(pid: u32) -> Duration {
    let of_thread = |task: fs::DirEntry| {
        let times = fs::read_to_string(task.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    };
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    Duration::from_nanos(threads.filter_map(|task| of_thread(task.unwrap())).sum())
}

/// Returns resident memory in megabytes, and CPU time in clock ticks.
fn usage(pid: u32) -> (u64, u64) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let field = |n: usize| fields[n - 3].parse::<u64>().unwrap();
    ((field(24) * rustix::param::page_size() as u64) >> 20, field(14) + field(15))
}

fn measure(program: &Path, process: &Sleep, count: usize) {
    // A plugin gets all containers in one event.
    let node = Node::new("plugin_request_timeout = 60\nplugin_registration_timeout = 60\n");
    let nrid = node.start_program(program);
    run(&node, "c0", process).unwrap();
    node.stop();
    nrid.wait_for_exit();
    multiply(&node, count);

    let began = Instant::now();
    let nrid = node.start_program(program);
    assert_eq!(node.status().containers, count);
    let (start, start_cpu) = (began.elapsed(), cpu_time(nrid.id()));
    std::thread::sleep(IDLE);
    let before = usage(nrid.id()).1;
    std::thread::sleep(IDLE);
    let ticks = usage(nrid.id()).1 - before;
    let cpu =
        100.0 * ticks as f64 / (IDLE.as_secs() * rustix::param::clock_ticks_per_second()) as f64;
    let (began, cpu_before) = (Instant::now(), cpu_time(nrid.id()));
    for n in 0..CREATIONS {
        run(&node, &format!("n{n}"), process).unwrap();
    }
    let create = began.elapsed() / CREATIONS;
    let create_cpu = (cpu_time(nrid.id()) - cpu_before) / CREATIONS;
    let memory = usage(nrid.id()).0;
    node.stop();
    nrid.wait_for_exit();

    node.plugin("10-a");
    let began = Instant::now();
    let nrid = node.start_program(program);
    wait_until("the plugin", || {
        node.status().plugins.iter().any(|plugin| plugin.state == "active").then_some(())
    });
    let synchronized = began.elapsed();
    node.stop();
    nrid.wait_for_exit();
    println!(
        "{count:>10} {:>10} {:>13} {:>17} {:>13} {:>24} {memory:>8} {cpu:>10.2}",
        start.as_millis(),
        start_cpu.as_millis(),
        create.as_micros(),
        create_cpu.as_micros(),
        synchronized.as_millis(),
    );
}

/// `NRID` names another program to measure, and `SIZES` the numbers of containers.
#[test]
#[ignore = "a measurement of some minutes"]
fn time_and_memory_by_number_of_containers() {
    let program = std::env::var_os("NRID").unwrap_or(env!("CARGO_BIN_EXE_nrid").into());
    let sizes = std::env::var("SIZES").unwrap_or("10 1000 10000".to_owned());
    let process = Sleep::new();
    println!(
        "containers start (ms) its CPU (ms) create+start (us) its CPU (us) \
         start with a plugin (ms) RSS (MB) idle CPU %"
    );
    for size in sizes.split_whitespace() {
        measure(Path::new(&program), &process, size.parse().unwrap());
    }
}
