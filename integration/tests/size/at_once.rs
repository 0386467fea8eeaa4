//! Test of many containers at once, while `nrid` has the limits of open files that engines usually
//! have. No container may be lost or reported as stopped, neither while containers are created nor
//! after a restart or a crash of `nrid`.

use super::{engine::Engine, number_from_environment, small_runtime};
use nri_integration::{Journal, Node, Process, Program, command_after, wait_until};
use serde_json::Value;
use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// Number of threads that create containers.
const CREATORS: usize = 4;
/// Number of containers that end in the test.
const ENDING: usize = 10;
/// Shell commands that set the limits of open files of `nrid`, as engines usually have them.
const LIMITS: &str = "ulimit -Hn 20000; ulimit -Sn 1024";

/// An `nrid` in the foreground, where it keeps [`LIMITS`]. Dropping this value kills the process.
struct Nrid(Child);

impl Nrid {
    fn start(node: &Node) -> Self {
        let mut nrid = Command::new(node.program("nrid"));
        nrid.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
        // Run nrid in the mount namespace of the wrappers, like an nrid that they start.
        let mut command = command_after(LIMITS, &nrid);
        let output = fs::File::create(node.path("nrid.output")).unwrap();
        command.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        command.process_group(0);
        let nrid = Self(command.spawn().unwrap());
        // After a kill, nrid does not serve the control socket until it has read all records.
        wait_until("nrid to reply", || (node.ctl(&["status"]).code == Some(0)).then_some(()));
        let nrid_limits = fs::read_to_string(format!("/proc/{}/limits", nrid.0.id())).unwrap();
        println!("{}", nrid_limits.lines().find(|l| l.starts_with("Max open files")).unwrap());
        nrid
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Nrid {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates the containers with the numbers from `processes.len()` to `count` (exclusive), and adds
/// their processes to `processes`.
fn fill(engine: &Engine, processes: &mut Vec<Process>, count: usize) {
    let next = AtomicUsize::new(processes.len());
    let create = || {
        let mut created = Vec::new();
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return created;
            }
            created.push((n, engine.run(&id(engine, n), &["/bin/sleep", "100000"])));
        }
    };
    let mut created: Vec<_> = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS).map(|_| scope.spawn(create)).collect();
        creators.into_iter().flat_map(|creator| creator.join().unwrap()).collect()
    });
    created.sort_by_key(|(n, _)| *n);
    processes.extend(created.into_iter().map(|(_, process)| process));
}

/// Returns the id of the container with this number.
fn id(engine: &Engine, number: usize) -> String {
    engine.node.id(&format!("{number:05}"))
}

/// Counts the StopContainer events.
fn stops(journal: &Journal) -> usize {
    journal.entries().iter().filter(|entry| entry["event"] == "StopContainer").count()
}

/// Checks that `nrid` knows this number of containers, and that the plugin was notified of no stop.
fn check_none_lost(engine: &Engine, journal: &Journal, count: usize) {
    let status = engine.node.status().unwrap();
    assert_eq!(status["containers"], count, "{status}");
    assert_eq!(engine.containers(), count);
    assert_eq!(stops(journal), 0, "the plugin was notified of stops");
}

/// Waits until the last synchronization of the plugin contained this number of containers. The
/// plugin writes one entry for the event, and one for each pod and container.
fn wait_for_synchronize(journal: &Journal, count: usize) {
    wait_until(format_args!("a Synchronize with {count} containers"), || {
        let is_synchronize = |entry: &Value| entry["event"] == "Synchronize";
        let is_event = |entry: &Value| {
            is_synchronize(entry) && entry["pod"].is_null() && entry["container"].is_null()
        };
        let entries = journal.entries();
        let last = entries.rsplit(is_event).next()?;
        let containers = last.iter().filter(|e| is_synchronize(e) && !e["container"].is_null());
        (containers.count() == count).then_some(())
    });
}

#[test]
fn containers_are_not_lost_by_a_low_limit_a_restart_or_a_crash() {
    let count = number_from_environment("NRI_SIZE_CONTAINERS", 40).max(2 * ENDING);
    let Some(runtime) = small_runtime("many containers") else { return };
    let engine = Engine::new(Node::new(runtime));
    let node = &engine.node;
    // Long timeouts, since a plugin receives all containers in one event.
    node.configure("plugin_request_timeout = '60s'\nplugin_registration_timeout = '60s'\n");
    let journal = node.launch("10-size", &Program::Adjust, "");
    let nrid = Nrid::start(node);
    let mut processes = Vec::new();
    fill(&engine, &mut processes, count / 2);
    println!("{} containers of {}, then a restart", processes.len(), runtime.name);
    node.ctl(&["restart"]).success();
    check_none_lost(&engine, &journal, count / 2);
    wait_for_synchronize(&journal, count / 2);
    fill(&engine, &mut processes, count);
    println!("{count} containers, then a crash");
    check_none_lost(&engine, &journal, count);
    nrid.kill();
    let nrid = Nrid::start(node);
    check_none_lost(&engine, &journal, count);
    wait_for_synchronize(&journal, count);
    assert!(processes.iter().all(|process| process.is_alive()), "a container's process ended");

    for n in 0..ENDING {
        engine.kill(&id(&engine, n));
    }
    wait_until("the stops", || (stops(&journal) >= ENDING).then_some(()));
    for (n, process) in processes.iter().enumerate().take(ENDING) {
        engine.delete(&id(&engine, n), *process);
    }
    assert_eq!(stops(&journal), ENDING);
    assert_eq!(node.status().unwrap()["containers"], count - ENDING);
    assert_eq!(engine.containers(), count - ENDING);
    println!("{} containers are left, none was reported as stopped", count - ENDING);
    node.clean_up();
    drop(nrid);
}
