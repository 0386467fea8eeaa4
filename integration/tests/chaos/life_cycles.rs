//! Clients of an engine: each runs containers through life cycles, one after the other, and checks
//! on the host that each call did what it reports.

use super::{
    calls::{Outcome, call},
    rng::Rng,
    run::{Run, lock},
};
use nri_integration::{Process, wait_until};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// Percentage of the calls that are disturbed.
const DISTURBED: u64 = 12;
/// Number of containers that a client keeps until the end of the round.
const KEPT: usize = 4;
/// Number of pods without a sandbox container, which containers of all clients share.
const SHARED_PODS: u64 = 2;

/// Program of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Runs until it is killed.
    Long,
    /// Exits with this code.
    Short(i32),
}

/// A client of the engine.
pub(super) struct Client<'a> {
    run: &'a Run,
    rng: Rng,
    name: usize,
    life_cycles: usize,
    kept: usize,
    /// Id of a deleted container, for reuse.
    free: Option<String>,
}

/// A container during its life cycle.
struct Life {
    id: String,
    /// Pids limits of which one must be effective; empty if no update has set one.
    limits: BTreeSet<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(run: &'a Run, name: usize) -> Self {
        let rng = Rng::new(run.seed, name as u64);
        Self { run, rng, name, life_cycles: 0, kept: 0, free: None }
    }

    pub(super) fn run_life_cycles(mut self) {
        while !self.run.is_over() {
            match self.rng.within(0..10) {
                0 => self.pod(),
                1..4 => {
                    let pod = self.run.node.id(&format!("pod{}", self.rng.within(0..SHARED_PODS)));
                    self.container(Some(&pod));
                }
                _ => self.container(None),
            }
        }
    }

    /// Runs a pod with a sandbox container, which is created before its containers and deleted
    /// last.
    fn pod(&mut self) {
        let sandbox = self.bundle(Work::Long, Some(None));
        let mut life = Life { id: sandbox.clone(), limits: BTreeSet::new() };
        if self.create_and_start(&mut life) {
            for _ in 0..self.rng.within(0..3) {
                let (id, work) = self.new_container(Some(&sandbox));
                let member = self.start_life(id, work);
                self.end(member, work);
            }
        }
        self.end(life, Work::Long);
        // Engines do not reuse the id of a sandbox.
        self.free = None;
    }

    fn container(&mut self, pod: Option<&str>) {
        let (id, work) = self.new_container(pod);
        let life = self.start_life(id, work);
        let keep = self.kept < KEPT && self.rng.percent(8);
        if keep && self.run.node.state(&life.id).is_some() {
            self.kept += 1;
        } else {
            self.end(life, work);
        }
    }

    fn new_container(&mut self, pod: Option<&str>) -> (String, Work) {
        let work = match self.rng.within(0..10) {
            0..6 => Work::Long,
            6..9 => Work::Short(7),
            _ => Work::Short(0),
        };
        (self.bundle(work, pod.map(Some)), work)
    }

    fn start_life(&mut self, id: String, work: Work) -> Life {
        self.run.count("life cycles");
        if self.rng.percent(65) {
            self.life_by_create(id, work)
        } else {
            self.life_by_run(id, work)
        }
    }

    /// Writes a bundle and returns the container's id: a new one or, sometimes, that of a deleted
    /// container. `pod` is the container's pod; with `Some(None)` the container is a sandbox.
    fn bundle(&mut self, work: Work, pod: Option<Option<&str>>) -> String {
        self.life_cycles += 1;
        let arguments: &[&str] = match work {
            Work::Long => &["/bin/sleep", "1000"],
            Work::Short(0) => &["/bin/true"],
            Work::Short(_) => &["/bin/sh", "-c", "echo it ends >&2; exit 7"],
        };
        let reused =
            if self.rng.percent(25) && pod != Some(None) { self.free.take() } else { None };
        let id = reused
            .unwrap_or_else(|| self.run.node.id(&format!("{}-{}", self.name, self.life_cycles)));
        let dir = self.run.bundle(&id);
        let _ = fs::create_dir(&dir);
        let pod = pod.map(|pod| pod.unwrap_or(&id));
        let config = self.run.config(&id, pod, arguments);
        fs::write(dir.join("config.json"), &config).expect("the test directory is writable");
        lock(&self.run.configs).insert(id.clone(), config);
        lock(&self.run.pods).insert(id.clone(), pod.unwrap_or(&id).to_owned());
        lock(&self.run.ids).insert(id.clone());
        id
    }

    fn call(&mut self, percent: u64, arguments: &[&str]) -> Outcome {
        let outcome = call(self.run, &mut self.rng, percent, arguments);
        if outcome.interrupted {
            let id = arguments.iter().find(|a| a.starts_with(self.run.node.prefix()));
            lock(&self.run.interrupted)
                .insert((*id.expect("each call names a container")).to_owned());
        }
        outcome
    }

    /// Calls `create` and `start`, then random verbs.
    fn life_by_create(&mut self, id: String, work: Work) -> Life {
        let mut life = Life { id, limits: BTreeSet::new() };
        if self.create_and_start(&mut life) && work == Work::Long {
            self.exec_and_update(&mut life);
        }
        life
    }

    /// Calls `create` and `start`; returns whether the container has started.
    fn create_and_start(&mut self, life: &mut Life) -> bool {
        let bundle = self.run.bundle(&life.id);
        let bundle = bundle.to_str().expect("paths of tests are UTF-8");
        for _ in 0..2 {
            let created = self.call(DISTURBED, &["create", "--bundle", bundle, &life.id]);
            if self.check_result(life, &created, &["created"]) {
                break;
            }
            if created.interrupted || self.rng.percent(50) {
                return false;
            }
        }
        if !self.run.has(&life.id) || self.rng.percent(10) {
            return false;
        }
        if self.rng.percent(15) {
            self.update(life);
        }
        let started = self.call(DISTURBED, &["start", &life.id]);
        self.check_result(life, &started, &["running", "stopped"])
    }

    fn life_by_run(&mut self, id: String, work: Work) -> Life {
        let bundle = self.run.bundle(&id);
        let bundle = bundle.to_str().expect("paths of tests are UTF-8");
        let mut life = Life { id, limits: BTreeSet::new() };
        let foreground = work != Work::Long && self.rng.percent(60);
        if foreground {
            let ran = self.call(DISTURBED, &["run", "--bundle", bundle, &life.id]);
            if let (Work::Short(code), true) = (work, ran.code == Some(0) || ran.code == Some(7))
                && ran.code != Some(code)
                && !ran.interrupted
            {
                self.run.wrong(format!(
                    "run of {} exits with {:?} instead of {code}",
                    life.id, ran.code
                ));
            }
            return life;
        }
        let ran = self.call(DISTURBED, &["run", "--detach", "--bundle", bundle, &life.id]);
        if self.check_result(&life, &ran, &["running", "stopped"]) && work == Work::Long {
            self.exec_and_update(&mut life);
        }
        life
    }

    /// Checks a call's effect: after a success, the container must have one of these statuses;
    /// after a failed creation, the runtime must not have it. Returns whether the call succeeded.
    fn check_result(&mut self, life: &Life, outcome: &Outcome, statuses: &[&str]) -> bool {
        let id = &life.id;
        if outcome.interrupted {
            return false;
        }
        if outcome.is_ok() {
            let state = self.run.node.state(id).unwrap_or_default();
            let status = state["status"].as_str().unwrap_or("missing");
            if !statuses.contains(&status) {
                self.run.wrong(format!("{id} is {status} instead of {statuses:?}"));
            }
        } else if statuses == ["created"] && self.run.has(id) && !self.was_interrupted(id) {
            self.run.wrong(format!("the creation of {id} failed, but the runtime has it"));
        }
        outcome.is_ok()
    }

    fn was_interrupted(&self, id: &str) -> bool {
        lock(&self.run.interrupted).contains(id)
    }

    fn exec_and_update(&mut self, life: &mut Life) {
        for _ in 0..self.rng.within(0..3) {
            if self.rng.percent(40) {
                let executed = self.call(DISTURBED, &["exec", &life.id, "/bin/echo", "here"]);
                if executed.is_ok() && executed.out != "here\n" {
                    self.run.wrong(format!("exec in {} prints {:?}", life.id, executed.out));
                }
            } else {
                self.update(life);
            }
        }
    }

    /// Updates the pids limit or the CPU shares as an engine. The pids limit of the last successful
    /// update must stay effective, whatever else is updated.
    fn update(&mut self, life: &mut Life) {
        let limit = self.rng.within(1000..1_000_000).to_string();
        let shares = self.rng.within(2..4000).to_string();
        let sets_limit = self.rng.percent(50);
        let flag = if sets_limit { ["--pids-limit", &limit] } else { ["--cpu-share", &shares] };
        let updated = self.call(DISTURBED, &["update", flag[0], flag[1], &life.id]);
        if sets_limit {
            if updated.is_ok() {
                life.limits.clear();
            } else if life.limits.is_empty() {
                // The limit of config.json, which sets none.
                life.limits.insert("max".to_owned());
            }
            life.limits.insert(limit);
        }
        let cgroup = self.run.cgroup(&life.id);
        if let Ok(found) = self.run.node.kernel_file(&cgroup, "pids", "pids.max", "pids.max")
            && !life.limits.is_empty()
            && !life.limits.contains(&found)
            // The runtime of a killed wrapper may still write its own value for a moment.
            && !updated.interrupted
        {
            self.run.wrong(format!(
                "pids.max of {} is {found} instead of one of {:?}",
                life.id, life.limits
            ));
        }
    }

    fn end(&mut self, life: Life, work: Work) {
        let id = life.id.as_str();
        if self.rng.percent(60) && work == Work::Long && self.run.has(id) {
            let killed = self.call(DISTURBED, &["kill", id, "KILL"]);
            if killed.is_ok() {
                self.wait_for_end(id);
                self.call(DISTURBED, &["delete", id]);
            }
        }
        self.remove(id);
        lock(&self.run.ids).remove(id);
        self.free = Some(id.to_owned());
    }

    fn wait_for_end(&self, id: &str) {
        let pid = self.run.node.state(id).and_then(|state| state["pid"].as_u64()).unwrap_or(0);
        let process = Process(pid as u32);
        wait_until(format_args!("the end of {id}"), || {
            (pid == 0 || !process.is_alive()).then_some(())
        });
    }

    /// Deletes a container, repeatedly until the runtime does not have it any more, as engines do.
    fn remove(&mut self, id: &str) {
        for percent in [DISTURBED, DISTURBED, 0, 0] {
            let deleted = self.call(percent, &["delete", "--force", id]);
            if deleted.is_ok() && !deleted.interrupted {
                if !self.run.has(id) {
                    return;
                }
                if !self.was_interrupted(id) {
                    self.run.wrong(format!("the delete of {id} succeeded, but the runtime has it"));
                }
            } else if !deleted.interrupted && !self.run.has(id) {
                return;
            }
        }
        if self.was_interrupted(id) {
            // A killed runtime may leave a state that it cannot remove itself.
            let bare = self.run.node.bare(&["delete", "--force", id]);
            self.run.note(format!("bare delete of {id}: {:?} {}", bare.code, bare.err()));
            let _ = fs::remove_dir_all(self.run.node.root().join(id));
            return;
        }
        self.run.wrong(format!("{id} cannot be deleted"));
    }
}

/// Containers of the runtime: ids and statuses.
pub(super) fn containers_of_host(run: &Run) -> Vec<(String, String)> {
    let names = fs::read_dir(run.node.root()).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let containers = names.filter_map(|id| {
        let state: Value = run.node.state(&id)?;
        Some((id, state["status"].as_str()?.to_owned()))
    });
    containers.collect()
}
