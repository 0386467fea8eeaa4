//! Chaos test: runs life cycles of containers on real runtimes while faults are injected. `nrid`,
//! wrappers and plugins are killed, stopped and disconnected, sockets get garbage, and the disk
//! with `nrid`'s records is full at times. Every failed call must report its error; afterwards
//! every connected plugin must know exactly the containers that exist, and nothing may be left
//! over.
//!
//! `NRI_CHAOS_SECONDS=600` sets the duration of all rounds together (default 20);
//! `NRI_CHAOS_SEED=N` repeats the choices of a run, not its timing; `NRI_CHAOS_KEEP=DIR` keeps the
//! files of a failed round. `make chaos` runs it for long. A round is one [`Run`]; the clients are
//! [`Client`]s.

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

/// Number of clients that call the wrapper at once.
const CLIENTS: usize = 4;
/// Longest duration of a round in seconds; after each round the final state is checked.
const ROUND: u64 = 20;

/// Number in an environment variable.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// A small tmpfs, so that the disk of `nrid` can be filled.
struct Disk(tempfile::TempDir);

impl Disk {
    /// Mounts the disk. It must be mounted before the mount namespace of the runtimes is created,
    /// so that they see it, too.
    fn mount() -> Result<Self, String> {
        let dir = tempfile::Builder::new()
            .prefix("nri-chaos-")
            .tempdir()
            .expect("a temporary directory can be created");
        let mut mount = Command::new("mount");
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
    let Some(go) = go("chaos") else { return };
    let clock =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| u64::from(d.subsec_nanos()));
    let (seed, seconds) = (number("NRI_CHAOS_SEED", clock), number("NRI_CHAOS_SECONDS", 20));
    for_each_runtime("chaos", |runtime| {
        let share = seconds / runtimes().0.len() as u64;
        let rounds = share.div_ceil(ROUND).max(1);
        let mut total = BTreeMap::new();
        println!(
            "NRI_CHAOS_SEED={seed} NRI_CHAOS_SECONDS={seconds} ({}, {rounds} rounds)",
            runtime.name
        );
        for n in 0..rounds {
            let time = Duration::from_secs_f64(share as f64 / rounds as f64);
            for (name, count) in run_round(runtime, disk.0.path(), seed + n, time, &go) {
                *total.entry(name).or_insert(0) += count;
            }
        }
        println!("{}: {total:?}", runtime.name);
        assert!(total["life cycles"] > 0 && total["sessions"] > 0, "{total:?}");
    });
}

/// Runs one round; returns how often each action was done.
fn run_round(
    runtime: &Runtime,
    disk: &Path,
    seed: u64,
    time: Duration,
    go: &Program,
) -> BTreeMap<&'static str, usize> {
    let state_dir = disk.join("s");
    let run = Run::new(runtime, &state_dir, seed, time);
    plugins::install(&run, go);
    run.node.ctl(&["start"]).success();
    let externals = thread::scope(|scope| {
        let run = &run;
        for client in 0..CLIENTS {
            scope.spawn(move || Client::new(run, client).run_life_cycles());
        }
        scope.spawn(|| faults::nrid(run, &mut Rng::new(seed, 10)));
        scope.spawn(|| faults::garbage(run, &mut Rng::new(seed, 11)));
        scope.spawn(|| faults::disk(run, &mut Rng::new(seed, 12), disk));
        scope
            .spawn(|| faults::plugins(run, &mut Rng::new(seed, 13), go))
            .join()
            .expect("the thread of plugin faults does not panic")
    });
    run.fail_if_wrong();
    quiescent::check(&run, go, externals);
    run.fail_if_wrong();
    let counts = run.counts();
    println!("{} seed {seed}: {counts:?}", runtime.name);
    drop(run);
    let _ = fs::remove_dir_all(state_dir);
    counts
}
