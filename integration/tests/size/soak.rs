//! Test of containers that exist one after the other, for hours if configured. When all containers
//! are deleted, `nrid` must have the same descriptors, memory and files as before.

use super::{engine::Engine, number_from_environment, small_runtime};
use nri_integration::{Node, Process, Program, cgroups_of, wait_until};
use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Number of threads that run containers.
const CLIENTS: usize = 4;
/// Number of containers before the first measurement. These containers make `nrid` allocate the
/// buffers that it keeps, and start its threads for blocking calls.
const WARM_UP: usize = 200;
/// Maximum growth of the memory in KiB, since the allocator does not return all memory to the
/// kernel. More growth is a leak: of 200 bytes or more per container in a soak of 20,000
/// containers.
const MEMORY_MARGIN: u64 = 4096;
/// Maximum number of files of deleted records that `nrid` keeps for new records.
const MAX_SPARES: usize = 32;
/// Time for which nothing may change before the first measurement.
const SETTLING_TIME: Duration = Duration::from_secs(3);
/// Number of progress reports of a long soak.
const REPORTS: usize = 40;

/// State that must be the same before and after the containers.
#[derive(Debug, PartialEq, Eq)]
struct Leftovers {
    nrid: u32,
    plugin: u32,
    descriptors: usize,
    plugin_descriptors: usize,
    /// Files in the state directory except the log, and the spare files of records: their number
    /// and names depend on how many containers existed at the same time.
    files: Vec<PathBuf>,
    containers: usize,
    cgroups: usize,
}

impl Leftovers {
    fn of(engine: &Engine) -> Self {
        let node = &engine.node;
        let status = node.status().expect("nrid runs");
        let pid = |value: &serde_json::Value| value.as_u64().expect("a pid") as u32;
        let (nrid, plugin) = (pid(&status["pid"]), pid(&status["plugins"][0]["pid"]));
        let mut files = Vec::new();
        files_below(&node.state_dir(), &mut files);
        let is_log = |file: &str| file.contains("nrid.log") || file.contains("audit.log");
        files.retain(|file| !is_log(&file.to_string_lossy()));
        let count = files.len();
        files.retain(|file| !file.starts_with(node.state_dir().join("spare")));
        let spares = count - files.len();
        assert!(spares <= MAX_SPARES, "{spares} spare files");
        files.sort();
        Self {
            nrid,
            plugin,
            descriptors: Process(nrid).files().len(),
            plugin_descriptors: Process(plugin).files().len(),
            files,
            containers: engine.containers(),
            cgroups: cgroups_of(node.prefix()).len(),
        }
    }
}

fn files_below(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the directory exists").flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            files_below(&entry.path(), files);
        } else {
            files.push(entry.path());
        }
    }
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse().ok()).expect("VmRSS has a number")
}

/// Runs the containers with the numbers from `first` to `end` (exclusive), spread over this time.
/// Every second container exits by itself; the test kills the others.
fn run_containers(engine: &Engine, first: usize, end: usize, duration: Duration) {
    let (began, next, ended) = (Instant::now(), AtomicUsize::new(first), AtomicUsize::new(first));
    let interval =
        duration / u32::try_from((end - first).max(1)).expect("the count fits into 32 bits");
    let run_next = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= end {
                return;
            }
            let due = interval * u32::try_from(n - first).expect("the count fits into 32 bits");
            thread::sleep(due.saturating_sub(began.elapsed()));
            let id = engine.node.id(&format!("{n:06}"));
            let exits = n % 2 == 0;
            let arguments: &[&str] = if exits { &["/bin/true"] } else { &["/bin/sleep", "1000"] };
            let process = engine.run(&id, arguments);
            if !exits {
                engine.kill(&id);
            }
            engine.delete(&id, process);
            let count = ended.fetch_add(1, Ordering::Relaxed) + 1;
            // A short soak has a report after every 100 containers.
            if (count - first).is_multiple_of(((end - first) / REPORTS).max(100)) {
                report(engine, &format!("{count} containers, {:.0?}", began.elapsed()));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(run_next);
        }
    });
}

fn report(engine: &Engine, when: &str) {
    let now = Leftovers::of(engine);
    println!(
        "{when}: {} descriptors, {} KiB; plugin {} descriptors, {} KiB; {} files, {} containers",
        now.descriptors,
        memory(now.nrid),
        now.plugin_descriptors,
        memory(now.plugin),
        now.files.len(),
        now.containers,
    );
}

#[test]
fn many_containers_one_after_the_other_leave_nothing_behind() {
    let lives = number_from_environment("NRI_SOAK_LIVES", WARM_UP + 100);
    let seconds = number_from_environment("NRI_SOAK_SECONDS", 0) as u64;
    let Some(runtime) = small_runtime("soak") else { return };
    let engine = Engine::new(Node::new(runtime));
    let node = &engine.node;
    // Without a journal, which would have an entry for each event.
    fs::write(node.path("conf.d").join("10-soak.conf"), "[create.env.set]\nSOAK = 'yes'\n")
        .expect("the test directory is writable");
    symlink(Program::Adjust.path(), node.path("plugins").join("10-soak"))
        .expect("the test directory is writable");
    node.ctl(&["start"]).success();

    run_containers(&engine, 0, WARM_UP, Duration::ZERO);
    report(&engine, "after the warm-up");
    // Sockets of earlier requests may still be open for a moment, and pidfds of ended containers
    // until process 1 has reaped them, which takes up to a second on some machines.
    let unchanged = || {
        let first = Leftovers::of(&engine);
        thread::sleep(SETTLING_TIME);
        (first == Leftovers::of(&engine) && first.containers == 0).then_some(first)
    };
    let before = wait_until("nrid to be idle", unchanged);
    let memory_before = [before.nrid, before.plugin].map(memory);
    let lives = lives.max(WARM_UP + CLIENTS);
    run_containers(&engine, WARM_UP, lives, Duration::from_secs(seconds));
    let mut after = Leftovers::of(&engine);
    wait_until(format_args!("the state before, {before:?}"), || {
        after = Leftovers::of(&engine);
        (after == before).then_some(())
    });
    let memory_after = [after.nrid, after.plugin].map(memory);
    println!(
        "{lives} containers with {}: {} descriptors, {} files before and after; memory of nrid and \
         plugin {memory_before:?} KiB, {memory_after:?} KiB after",
        runtime.name,
        after.descriptors,
        after.files.len(),
    );
    for (before, after) in memory_before.into_iter().zip(memory_after) {
        assert!(after <= before + MEMORY_MARGIN, "memory grew from {before} to {after} KiB");
    }
}
