//! Faults of `nrid`, plugins, connections and the disk, which are injected while containers are
//! created and deleted. `calls` injects the faults of wrappers.

use super::{plugins::External, rng::Rng, run::Run};
use nri_integration::{Process, Program};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::VecDeque,
    fs::{self, File},
    io::Write,
    os::unix::net::UnixStream,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Largest number of external plugins that are connected at the same time.
const MAX_EXTERNALS: usize = 3;
/// Time in which `nrid` must end after SIGTERM: longer than the sum of all configured timeouts,
/// because `nrid` first finishes the requests in progress.
const END_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest number of garbage connections that are open at the same time: fewer than `nrid` accepts,
/// so that wrappers and plugins can still connect.
const MAX_GARBAGE_CONNECTIONS: usize = 8;

/// Sends a signal to a process. Does nothing if the process has ended.
pub(super) fn signal(process: Process, signal: Signal) {
    if let Some(pid) = i32::try_from(process.0).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends SIGKILL, SIGTERM or a temporary SIGSTOP to `nrid`, or calls `nrictl stop`.
pub(super) fn disturb_nrid(run: &Run, rng: &mut Rng) {
    let mut terminated = Vec::new();
    while !run.is_over() {
        rng.pause(200..2500);
        let Some(nrid) = run.node.nrids().first().copied() else { continue };
        match rng.within(0..10) {
            0..4 => {
                run.note(format!("kill nrid {}", nrid.0));
                run.count("nrid killed");
                signal(nrid, Signal::KILL);
            }
            4..6 => {
                run.note(format!("end nrid {}", nrid.0));
                run.count("nrid ended");
                signal(nrid, Signal::TERM);
                terminated.push((nrid, nrid.start_time()));
            }
            6 => {
                run.note("nrictl stop");
                run.count("nrid ended");
                run.node.ctl(&["stop"]);
            }
            _ => {
                run.note(format!("stop nrid {}", nrid.0));
                run.count("nrid stopped");
                signal(nrid, Signal::STOP);
                rng.pause(20..800);
                signal(nrid, Signal::CONT);
            }
        }
    }
    // Wait for each nrid that got SIGTERM. Otherwise the final checks could connect to an nrid that
    // has not handled the signal yet.
    let deadline = Instant::now() + END_TIMEOUT;
    for (nrid, start_time) in terminated {
        // If the start time differs, nrid has ended and another process has its process id.
        while nrid.is_alive() && nrid.start_time() == start_time {
            if Instant::now() > deadline {
                return run.report_defect(format!(
                    "nrid {} has not ended after SIGTERM: {}",
                    nrid.0,
                    nrid.describe()
                ));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Connects and disconnects external plugins, and sends signals to all plugins. Returns the
/// external plugins that are still connected.
pub(super) fn disturb_plugins(run: &Run, rng: &mut Rng, go_plugin: &Program) -> Vec<External> {
    let mut externals: VecDeque<External> = VecDeque::new();
    let mut started = 0;
    while !run.is_over() {
        rng.pause(20..400);
        externals.retain_mut(|external| !external.has_ended());
        match rng.within(0..10) {
            0..3 => {
                if externals.len() == MAX_EXTERNALS {
                    externals.pop_front();
                }
                externals.push_back(External::random(run, started, go_plugin, rng));
                started += 1;
            }
            3..7 => {
                let n = rng.within(0..MAX_EXTERNALS as u64) as usize;
                if let Some(external) = externals.get_mut(n) {
                    external.request_update(run, rng);
                }
            }
            _ => disturb_plugin(run, rng),
        }
    }
    externals.into()
}

/// Sends SIGKILL, SIGTERM or a temporary SIGSTOP to a random plugin.
fn disturb_plugin(run: &Run, rng: &mut Rng) {
    let sessions = run.node.sessions();
    let Some((plugin, journal)) = rng.pick(&sessions) else { return };
    let name = journal.file_name().unwrap_or_default().to_string_lossy();
    match rng.within(0..4) {
        0 => {
            run.note(format!("kill plugin {name}"));
            run.count("plugins killed");
            signal(*plugin, Signal::KILL);
        }
        1 => {
            run.note(format!("end plugin {name}"));
            run.count("plugins killed");
            signal(*plugin, Signal::TERM);
        }
        _ => {
            run.note(format!("stop plugin {name}"));
            run.count("plugins stopped");
            signal(*plugin, Signal::STOP);
            rng.pause(20..1600);
            signal(*plugin, Signal::CONT);
        }
    }
}

/// Connects to nrid's sockets and sends nothing, random bytes, or an incomplete message.
pub(super) fn send_garbage(run: &Run, rng: &mut Rng) {
    let mut connections = VecDeque::new();
    while !run.is_over() {
        rng.pause(10..200);
        let socket = *rng.pick(&["control.sock", "nri.sock"]).expect("the list has two sockets");
        let Ok(mut stream) = UnixStream::connect(run.node.state_dir().join(socket)) else {
            continue;
        };
        run.count("garbage");
        // nrid may stop reading the data.
        let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
        let data = garbage_bytes(rng, socket == "control.sock");
        let _ = stream.write_all(&data);
        if rng.percent(40) {
            connections.push_back(stream);
        }
        if connections.len() > MAX_GARBAGE_CONNECTIONS {
            connections.pop_front();
        }
    }
}

/// Returns the bytes to send: to the control socket, or else to the socket of plugins.
fn garbage_bytes(rng: &mut Rng, is_control: bool) -> Vec<u8> {
    let noise = |rng: &mut Rng, n: u64| (0..n).map(|_| rng.next() as u8).collect::<Vec<u8>>();
    let length = |n: u32| n.to_be_bytes().to_vec();
    let frame = |text: &str| [length(text.len() as u32), text.as_bytes().to_vec()].concat();
    match (rng.within(0..8), is_control) {
        (0, _) => Vec::new(),
        (1 | 2, _) => {
            let n = rng.within(1..5000);
            noise(rng, n)
        }
        (3, true) => length(u32::MAX),
        // An incomplete frame.
        (4, true) => [length(4000), noise(rng, 10)].concat(),
        (5, true) => frame("{\"protocol\": 1, \"message\": \"unknown message\"}"),
        (6, true) => frame("[1, 2"),
        (_, true) => frame(&"[".repeat(5000)),
        // A trunk frame: connection number, length, and fewer bytes than this length.
        (3 | 4, false) => [length(1), length(5 << 20), noise(rng, 300)].concat(),
        (5, false) => [length(2), length(300), noise(rng, 20)].concat(),
        // A trunk frame with a ttrpc request: length, stream, type, flags, and random bytes.
        (6, false) => {
            [length(1), length(10 + 40), length(40), length(1), vec![1, 0], noise(rng, 40)].concat()
        }
        // A trunk frame of a connection that does not exist.
        (_, false) => [length(77), length(3), noise(rng, 3)].concat(),
    }
}

/// Fills the small disk, either all bytes or all inodes, and empties it after a while.
pub(super) fn fill_disk(run: &Run, rng: &mut Rng, dir: &Path) {
    let fill = dir.join("fill");
    while !run.is_over() {
        rng.pause(500..3000);
        run.count("disk full");
        let with_files = rng.percent(30);
        run.note(if with_files { "disk full: no inodes left" } else { "disk full: no bytes left" });
        let _ = fs::create_dir(&fill);
        if with_files {
            (0..).take_while(|n| File::create(fill.join(n.to_string())).is_ok()).for_each(drop);
        } else if let Ok(mut file) = File::create(fill.join("0")) {
            // Large writes are fast; then single bytes fill the rest.
            for size in [1 << 14, 1] {
                while file.write_all(&vec![0; size]).is_ok() {}
            }
        }
        rng.pause(50..900);
        if rng.percent(30)
            && let Some(nrid) = run.node.nrids().first()
        {
            // The next nrid must work without the records that the killed one could not write.
            run.note(format!("kill nrid {} on the full disk", nrid.0));
            run.count("nrid killed");
            signal(*nrid, Signal::KILL);
            rng.pause(1..300);
        }
        let _ = fs::remove_dir_all(&fill);
        run.note("disk emptied");
    }
}
