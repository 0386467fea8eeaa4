//! Runs one cell: starts the neighbours and the service, waits for its result, and ends all.

use crate::{
    cell::{Named, Pair, Service, Way},
    redis,
    testbed::{COUNTER, RESULT, Testbed},
    ways,
};
use nri_integration::wait_until;
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Time from the begin of a service until its latency counts.
const WARM_UP: Duration = Duration::from_millis(500);

/// Interval at which this program looks for the result. It is long, because each look may take the
/// CPU of the service.
const INTERVAL: Duration = Duration::from_millis(50);

/// Time in which a service starts, and ends in addition to its run, whatever its neighbours do.
/// What takes longer has failed.
const LIMIT: Duration = Duration::from_secs(300);

/// Name of the service's container.
const SERVICE: &str = "service";

/// The containers or processes of a cell. Dropping this value ends the processes; Docker removes
/// containers that are left when it ends.
#[derive(Default)]
struct Running {
    containers: Vec<String>,
    processes: Vec<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Measures a cell; returns its figures, with latencies in milliseconds.
pub(crate) fn measure(testbed: &Testbed, pair: Pair, way: Way, seconds: u64) -> Value {
    testbed.clear();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut running = Running::default();
    if way != Way::Alone {
        start_neighbours(testbed, pair, way, &mut running);
    }
    start_service(testbed, pair.service, way, &mut running);
    let started = testbed.work().join(format!("{RESULT}.started"));
    wait_for(&started, LIMIT, testbed, &mut running);
    thread::sleep(WARM_UP);

    let (begin, steal, work) = (Instant::now(), steal(), work(testbed, pair));
    let duration = Duration::from_secs(seconds);
    let result = testbed.work().join(RESULT);
    while begin.elapsed() < duration && !result.exists() {
        thread::sleep(INTERVAL);
    }
    let window = begin.elapsed().as_secs_f64();
    let worked = self::work(testbed, pair) - work;
    let stolen = self::steal() - steal;
    wait_for(&result, duration * 4 + LIMIT, testbed, &mut running);
    let read = |path: &Path| fs::read_to_string(path).expect("services write text");
    let (text, cpus) = (read(&result), read(&started));
    if !running.containers.is_empty() {
        testbed.remove(&running.containers);
    }

    let mut figures = match pair.service {
        Service::Redis => redis::figures(&text),
        _ => milliseconds(serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"))),
    };
    figures["service"] = json!(pair.service.name());
    figures["neighbour"] = json!(pair.neighbour.name());
    figures["way"] = json!(way.name());
    figures["cpus"] = json!(cpus.split_whitespace().last().unwrap_or_default());
    if way != Way::Alone {
        figures["work"] = json!(worked / window);
    }
    figures["window"] = json!(window);
    // Ticks of 10 ms, of all CPUs together.
    figures["steal"] = json!(stolen / 100.0);
    let load = load.split(' ').next().and_then(|load| load.parse::<f64>().ok());
    figures["load"] = json!(load);
    figures
}

fn start_neighbours(testbed: &Testbed, pair: Pair, way: Way, running: &mut Running) {
    let neighbour = pair.neighbour;
    let (kind, threads) = (neighbour.kind.name(), neighbour.threads());
    let command = |n| testbed.neighbour(kind, threads, n, way.is_pinned());
    let all = 0..neighbour.containers();
    if way.is_pinned() {
        let cpus = &testbed.cpus.of_neighbours;
        running.processes.extend(all.map(|n| pinned(testbed, cpus, &command(n))));
    } else {
        let parent = if way.is_idle() { testbed.make_idle_parent() } else { String::new() };
        let count = neighbour.containers();
        let options = ways::of_neighbour(way, &testbed.cpus, count, &parent);
        let name = |n| format!("batch-{n}");
        thread::scope(|scope| {
            for n in all.clone() {
                let (options, command) = (&options, &command);
                scope.spawn(move || testbed.run(&name(n), options, "busybox", &command(n)));
            }
        });
        running.containers.extend(all.map(name));
    }
    wait_until("the work of all neighbours", || {
        (0..neighbour.containers()).all(|n| count(testbed, n) > 0.0).then_some(())
    });
}

fn start_service(testbed: &Testbed, service: Service, way: Way, running: &mut Running) {
    let command = testbed.service(service, way.is_pinned());
    if way.is_pinned() {
        running.processes.push(pinned(testbed, &testbed.cpus.of_service, &command));
        return;
    }
    let parent = testbed.parent();
    let options = ways::of_service(way, &testbed.cpus, &parent);
    let image = if service == Service::Redis { "redis" } else { "busybox" };
    testbed.run(SERVICE, &options, image, &command);
    running.containers.push(SERVICE.to_owned());
    if way.has_parent() {
        testbed.raise_parent();
    }
}

/// Starts a process on CPUs, in the work directory as in containers.
fn pinned(testbed: &Testbed, cpus: &str, command: &[String]) -> Child {
    let mut taskset = Command::new("taskset");
    taskset.args(["--cpu-list", cpus]).args(command).current_dir(testbed.work());
    taskset.stdin(Stdio::null()).stdout(Stdio::null());
    taskset.spawn().unwrap_or_else(|e| panic!("{taskset:?}: {e}"))
}

/// Waits until a file of the service exists.
fn wait_for(file: &Path, limit: Duration, testbed: &Testbed, running: &mut Running) {
    let begin = Instant::now();
    while !file.exists() {
        let service = running.processes.last_mut();
        let ended = service.and_then(|process| process.try_wait().expect("it is a child"));
        let is_failed = ended.is_some_and(|status| !status.success()) || begin.elapsed() > limit;
        // `docker logs` has nothing of a pinned process, whose messages are on stderr.
        let name = file.display();
        assert!(!is_failed, "{name} is not written: {ended:?}, {}", testbed.logs(SERVICE));
        thread::sleep(INTERVAL);
    }
}

/// Work of the neighbours so far.
fn work(testbed: &Testbed, pair: Pair) -> f64 {
    (0..pair.neighbour.containers()).map(|n| count(testbed, n)).sum()
}

/// Work of all threads of a neighbour, which counts it as `c/neighbour.c` says.
fn count(testbed: &Testbed, n: usize) -> f64 {
    let counters = fs::read(testbed.work().join(format!("{COUNTER}{n}"))).unwrap_or_default();
    let threads = counters.chunks_exact(64);
    threads.map(|t| u64::from_ne_bytes(t[..8].try_into().expect("8 bytes")) as f64).sum()
}

/// Time so far in which the hypervisor ran others, in ticks.
fn steal() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let field = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    field.and_then(|ticks| ticks.parse().ok()).unwrap_or(0.0)
}

/// Converts the times of `c/service.c`.
fn milliseconds(mut figures: Value) -> Value {
    for name in ["p50", "p99", "p999", "max", "waited"] {
        // Programs write tenths of a microsecond.
        let tenths = (figures[name].as_f64().expect("a number") * 10.0).round();
        figures[name] = json!(tenths / 1e4);
    }
    figures
}
