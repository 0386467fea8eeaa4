//! Faults that are injected while containers are created and deleted: into `nrid`, plugins,
//! connections and the disk. Those of wrappers are in `calls`.

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

/// Number of external plugins at once.
const EXTERNALS: usize = 3;
/// Time in which an nrid must end after SIGTERM.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of garbage connections kept open at once.
const HELD: usize = 8;

/// Sends a signal to a process, which may have ended.
pub(super) fn signal(process: Process, signal: Signal) {
    if let Some(pid) = i32::try_from(process.0).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Sends SIGKILL, SIGTERM or a temporary SIGSTOP to `nrid`, or calls `nrictl stop`.
pub(super) fn nrid(run: &Run, rng: &mut Rng) {
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
    // Wait for each nrid that got SIGTERM: otherwise the final checks could connect to one that has
    // not handled the signal yet.
    let deadline = Instant::now() + TIMEOUT;
    for (nrid, started) in terminated {
        // The start time differs if another process has the id by now.
        while nrid.is_alive() && nrid.start_time() == started {
            if Instant::now() > deadline {
                return run.wrong(format!("nrid {} does not end: {}", nrid.0, nrid.describe()));
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Connects and disconnects external plugins, and disturbs all plugins. Returns the external
/// plugins that are still connected.
pub(super) fn plugins(run: &Run, rng: &mut Rng, go: &Program) -> Vec<External> {
    let mut externals: VecDeque<External> = VecDeque::new();
    let mut connected = 0;
    while !run.is_over() {
        rng.pause(20..400);
        externals.retain_mut(|external| !external.has_ended());
        match rng.within(0..10) {
            0..3 => {
                if externals.len() == EXTERNALS {
                    externals.pop_front();
                }
                externals.push_back(External::random(run, connected, go, rng));
                connected += 1;
            }
            3..7 => {
                let n = rng.within(0..EXTERNALS as u64) as usize;
                if let Some(external) = externals.get_mut(n) {
                    external.request_update(run, rng);
                }
            }
            _ => disturb_plugin(run, rng),
        }
    }
    externals.into()
}

fn disturb_plugin(run: &Run, rng: &mut Rng) {
    let all = run.node.sessions();
    let Some((plugin, journal)) = rng.pick(&all) else { return };
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
pub(super) fn garbage(run: &Run, rng: &mut Rng) {
    let mut held = VecDeque::new();
    while !run.is_over() {
        rng.pause(10..200);
        let socket = *rng.pick(&["control.sock", "nri.sock"]).expect("two");
        let Ok(mut stream) = UnixStream::connect(run.node.state_dir().join(socket)) else {
            continue;
        };
        run.count("garbage");
        // nrid may not read the data.
        let _ = stream.set_write_timeout(Some(Duration::from_millis(200)));
        let data = garbage_bytes(rng, socket == "control.sock");
        let _ = stream.write_all(&data);
        if rng.percent(40) {
            held.push_back(stream);
        }
        if held.len() > HELD {
            held.pop_front();
        }
    }
}

fn garbage_bytes(rng: &mut Rng, control: bool) -> Vec<u8> {
    let noise = |rng: &mut Rng, n: u64| (0..n).map(|_| rng.next() as u8).collect::<Vec<u8>>();
    let length = |n: u32| n.to_be_bytes().to_vec();
    let frame = |text: &str| [length(text.len() as u32), text.as_bytes().to_vec()].concat();
    match (rng.within(0..8), control) {
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
        // A connection number, a length, and fewer or more bytes than that.
        (3 | 4, false) => [length(1), length(5 << 20), noise(rng, 300)].concat(),
        (5, false) => [length(2), length(300), noise(rng, 20)].concat(),
        // A ttrpc request: length, stream, type, flags.
        (6, false) => {
            [length(1), length(10 + 40), length(40), length(1), vec![1, 0], noise(rng, 40)].concat()
        }
        (_, false) => [length(77), length(3), noise(rng, 3)].concat(),
    }
}

/// Fills the small disk, with bytes or with files, and empties it after a while.
pub(super) fn disk(run: &Run, rng: &mut Rng, dir: &Path) {
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
            // First large writes, then single bytes, until not one fits.
            for size in [1 << 14, 1] {
                while file.write_all(&vec![0; size]).is_ok() {}
            }
        }
        rng.pause(50..900);
        if rng.percent(30)
            && let Some(nrid) = run.node.nrids().first()
        {
            // The next nrid must work without the records that this one could not write.
            run.note(format!("kill nrid {} on the full disk", nrid.0));
            run.count("nrid killed");
            signal(*nrid, Signal::KILL);
            rng.pause(1..300);
        }
        let _ = fs::remove_dir_all(&fill);
        run.note("disk emptied");
    }
}
