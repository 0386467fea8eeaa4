//! Chaos test: runs life cycles of containers on real runtimes while faults are injected. `nrid`,
//! wrappers and plugins are killed, stopped and disconnected, sockets get garbage, and the disk
//! with `nrid`'s records is full at times. Every failed call must report its error. After the
//! faults, every connected plugin must know exactly the containers that exist; after the deletion
//! of all containers, no file, process, cgroup or mount may be left.
//!
//! `NRI_CHAOS_SECONDS=600` sets the total duration of all rounds with all runtimes (default 20);
//! `NRI_CHAOS_SEED=N` repeats the random choices of an earlier test, but not its timing;
//! `NRI_CHAOS_KEEP=DIR` keeps the files of a failed round. `make chaos` runs the test for ten
//! minutes. A [`Run`] is one round; each of its [`Client`]s calls the wrapper as an engine does.

mod calls;
mod faults;
mod life_cycles;
mod plugins;
mod quiescent;
mod rng;
mod run;

use life_cycles::Client;
use nri_integration::*;
use rng::Rng;
use run::Run;
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::Command,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Number of clients that call the wrapper concurrently.
const CLIENTS: usize = 4;
/// Longest duration of a round in seconds. The final state is checked after each round, so short
/// rounds detect a defect soon after the fault that caused it.
const MAX_ROUND_SECONDS: u64 = 20;

/// Returns the number in an environment variable, or `default` if the variable is not set.
fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// A small tmpfs for the state directory of `nrid`, which a fault can fill.
struct Disk(tempfile::TempDir);

impl Disk {
    /// Mounts the tmpfs. Call this before the mount namespace of the runtimes is created, so that
    /// the runtimes see the mount, too.
    fn mount() -> Result<Self, String> {
        let dir = tempfile::Builder::new()
            .prefix("nri-chaos-")
            .tempdir()
            .expect("a temporary directory can be created");
        let mut mount = Command::new("mount");
        // Small, so that a fault fills all bytes or inodes within milliseconds.
        mount
            .args(["-t", "tmpfs", "-o", "size=1m,nr_inodes=600,mode=0700", "nri-chaos"])
            .arg(dir.path());
        let mounted = mount.output().map_err(|e| format!("mount: {e}"))?;
        match mounted.status.success() {
            true => Ok(Self(dir)),
            false => Err(String::from_utf8_lossy(&mounted.stderr).into_owned()),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

#[test]
fn chaos_loses_no_container_and_no_event() {
    if !is_root() {
        return skip("chaos", "not root");
    }
    let disk = match Disk::mount() {
        Ok(disk) => disk,
        Err(why) => return skip("chaos", &why),
    };
    let Some(go_plugin) = go_plugin("chaos") else { return };
    let clock =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| u64::from(d.subsec_nanos()));
    let seed = number_from_environment("NRI_CHAOS_SEED", clock);
    let seconds = number_from_environment("NRI_CHAOS_SECONDS", 20);
    for_each_runtime("chaos", |runtime| {
        let runtime_seconds = seconds / runtimes().0.len() as u64;
        let rounds = runtime_seconds.div_ceil(MAX_ROUND_SECONDS).max(1);
        let mut counts = BTreeMap::new();
        println!(
            "NRI_CHAOS_SEED={seed} NRI_CHAOS_SECONDS={seconds} ({}, {rounds} rounds)",
            runtime.name
        );
        for round in 0..rounds {
            let duration = Duration::from_secs_f64(runtime_seconds as f64 / rounds as f64);
            for (action, count) in
                run_round(runtime, disk.0.path(), seed + round, duration, &go_plugin)
            {
                *counts.entry(action).or_insert(0) += count;
            }
        }
        println!("{}: {counts:?}", runtime.name);
        assert!(
            counts["life cycles"] > 0 && counts["sessions"] > 0,
            "no life cycle or no plugin session: {counts:?}"
        );
    });
}

/// Runs one round. Returns the number of times that each action was performed.
fn run_round(
    runtime: &Runtime,
    disk: &Path,
    seed: u64,
    duration: Duration,
    go_plugin: &Program,
) -> BTreeMap<&'static str, usize> {
    let state_dir = disk.join("s");
    let run = Run::new(runtime, &state_dir, seed, duration);
    plugins::install(&run, go_plugin);
    run.node.ctl(&["start"]).success();
    let externals = thread::scope(|scope| {
        let run = &run;
        // Each thread has a generator of its own; the clients have the numbers below `CLIENTS`.
        for client in 0..CLIENTS {
            scope.spawn(move || Client::new(run, client).run_life_cycles());
        }
        scope.spawn(|| faults::disturb_nrid(run, &mut Rng::new(seed, 10)));
        scope.spawn(|| faults::send_garbage(run, &mut Rng::new(seed, 11)));
        scope.spawn(|| faults::fill_disk(run, &mut Rng::new(seed, 12), disk));
        scope
            .spawn(|| faults::disturb_plugins(run, &mut Rng::new(seed, 13), go_plugin))
            .join()
            .expect("the thread of plugin faults does not panic")
    });
    run.fail_on_defects();
    quiescent::check(&run, go_plugin, externals);
    run.fail_on_defects();
    let counts = run.counts();
    println!("{} seed {seed}: {counts:?}", runtime.name);
    drop(run);
    let _ = fs::remove_dir_all(state_dir);
    counts
}
