//! Clients that call the wrapper as an engine does. Each client runs containers through life
//! cycles, one container after the other, and checks on the host that each call did what it
//! reports.

use super::{
    calls::{Outcome, call},
    rng::Rng,
    run::{Run, lock},
};
use nri_integration::{Process, wait_until};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// Percentage of calls in which the wrapper gets a signal: small enough that most life cycles reach
/// their later verbs.
const FAULT_PERCENT: u64 = 12;
/// Largest number of containers that a client keeps until the end of the round.
const MAX_KEPT: usize = 4;
/// Number of pods without a sandbox container, which containers of all clients share.
const SHARED_PODS: u64 = 2;

/// Program of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Runs until the container is killed.
    Long,
    /// Exits at once with this code.
    Short(i32),
}

/// A client that runs one life cycle after another.
pub(super) struct Client<'a> {
    run: &'a Run,
    rng: Rng,
    number: usize,
    /// Number of bundles written, which makes ids unique.
    life_cycles: usize,
    /// Number of containers that are kept until the end of the round.
    kept: usize,
    /// Id of a deleted container, which a later container may reuse.
    reusable_id: Option<String>,
}

/// A container during its life cycle.
struct Life {
    id: String,
    /// Pids limits, one of which must be effective: the limit of the last successful update, and
    /// the limits of later updates that failed but may have had an effect. Empty before the first
    /// update of the limit.
    limits: BTreeSet<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(run: &'a Run, number: usize) -> Self {
        let rng = Rng::new(run.seed, number as u64);
        Self { run, rng, number, life_cycles: 0, kept: 0, reusable_id: None }
    }

    /// Runs life cycles until the time of the run is over or a defect was reported.
    pub(super) fn run_life_cycles(mut self) {
        while !self.run.is_over() {
            match self.rng.within(0..10) {
                0 => self.run_pod(),
                1..4 => {
                    let pod = self.run.node.id(&format!("pod{}", self.rng.within(0..SHARED_PODS)));
                    self.run_container(Some(&pod));
                }
                _ => self.run_container(None),
            }
        }
    }

    /// Runs a pod with a sandbox container, which is created before the other containers of the pod
    /// and deleted after them.
    fn run_pod(&mut self) {
        let sandbox = self.write_bundle(Work::Long, Some(None));
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
        self.reusable_id = None;
    }

    /// Runs a container; sometimes keeps it until the end of the round.
    fn run_container(&mut self, pod: Option<&str>) {
        let (id, work) = self.new_container(pod);
        let life = self.start_life(id, work);
        let should_keep = self.kept < MAX_KEPT && self.rng.percent(8);
        if should_keep && self.run.node.state(&life.id).is_some() {
            self.kept += 1;
        } else {
            self.end(life, work);
        }
    }

    /// Chooses the program of a container and writes the bundle. Returns the container's id and
    /// program.
    fn new_container(&mut self, pod: Option<&str>) -> (String, Work) {
        let work = match self.rng.within(0..10) {
            0..6 => Work::Long,
            6..9 => Work::Short(7),
            _ => Work::Short(0),
        };
        (self.write_bundle(work, pod.map(Some)), work)
    }

    /// Starts a container, by `create` and `start` or by `run`.
    fn start_life(&mut self, id: String, work: Work) -> Life {
        self.run.count("life cycles");
        if self.rng.percent(65) {
            self.start_by_create(id, work)
        } else {
            self.start_by_run(id, work)
        }
    }

    /// Writes a bundle and returns the container's id: a new id or, sometimes, the id of a deleted
    /// container. `pod` is the container's pod; with `Some(None)` the container is a sandbox.
    fn write_bundle(&mut self, work: Work, pod: Option<Option<&str>>) -> String {
        self.life_cycles += 1;
        let arguments: &[&str] = match work {
            Work::Long => &["/bin/sleep", "1000"],
            Work::Short(0) => &["/bin/true"],
            Work::Short(_) => &["/bin/sh", "-c", "echo it ends >&2; exit 7"],
        };
        let reused_id =
            if self.rng.percent(25) && pod != Some(None) { self.reusable_id.take() } else { None };
        let id = reused_id
            .unwrap_or_else(|| self.run.node.id(&format!("{}-{}", self.number, self.life_cycles)));
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

    /// Calls the wrapper, and records the container if the call was interrupted.
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
    fn start_by_create(&mut self, id: String, work: Work) -> Life {
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
            let created = self.call(FAULT_PERCENT, &["create", "--bundle", bundle, &life.id]);
            if self.check_result(life, &created, &["created"]) {
                break;
            }
            if created.interrupted || self.rng.percent(50) {
                return false;
            }
        }
        if !self.run.runtime_has(&life.id) || self.rng.percent(10) {
            return false;
        }
        if self.rng.percent(15) {
            self.update(life);
        }
        let started = self.call(FAULT_PERCENT, &["start", &life.id]);
        self.check_result(life, &started, &["running", "stopped"])
    }

    /// Calls `run`, in the foreground or, with `--detach`, followed by random verbs.
    fn start_by_run(&mut self, id: String, work: Work) -> Life {
        let bundle = self.run.bundle(&id);
        let bundle = bundle.to_str().expect("paths of tests are UTF-8");
        let mut life = Life { id, limits: BTreeSet::new() };
        let foreground = work != Work::Long && self.rng.percent(60);
        if foreground {
            let ran = self.call(FAULT_PERCENT, &["run", "--bundle", bundle, &life.id]);
            if let (Work::Short(code), true) = (work, ran.code == Some(0) || ran.code == Some(7))
                && ran.code != Some(code)
                && !ran.interrupted
            {
                self.run.report_defect(format!(
                    "run of {} exited with {:?} instead of {code}",
                    life.id, ran.code
                ));
            }
            return life;
        }
        let ran = self.call(FAULT_PERCENT, &["run", "--detach", "--bundle", bundle, &life.id]);
        if self.check_result(&life, &ran, &["running", "stopped"]) && work == Work::Long {
            self.exec_and_update(&mut life);
        }
        life
    }

    /// Checks the effect of a call: if the call succeeded, the container must have one of the
    /// statuses; if a creation failed, the runtime must not have the container. Returns whether the
    /// call succeeded.
    fn check_result(&mut self, life: &Life, outcome: &Outcome, statuses: &[&str]) -> bool {
        let id = &life.id;
        if outcome.interrupted {
            return false;
        }
        if outcome.is_ok() {
            let state = self.run.node.state(id).unwrap_or_default();
            let status = state["status"].as_str().unwrap_or("missing");
            if !statuses.contains(&status) {
                self.run.report_defect(format!("{id} is {status} instead of {statuses:?}"));
            }
        } else if statuses == ["created"] && self.run.runtime_has(id) && !self.was_interrupted(id) {
            self.run.report_defect(format!(
                "the creation of {id} failed, but the runtime has the container"
            ));
        }
        outcome.is_ok()
    }

    /// Whether a call for this container was interrupted.
    fn was_interrupted(&self, id: &str) -> bool {
        lock(&self.run.interrupted).contains(id)
    }

    /// Makes up to two calls, each at random `exec` or `update`.
    fn exec_and_update(&mut self, life: &mut Life) {
        for _ in 0..self.rng.within(0..3) {
            if self.rng.percent(40) {
                let executed = self.call(FAULT_PERCENT, &["exec", &life.id, "/bin/echo", "here"]);
                if executed.is_ok() && executed.out != "here\n" {
                    self.run
                        .report_defect(format!("exec in {} prints {:?}", life.id, executed.out));
                }
            } else {
                self.update(life);
            }
        }
    }

    /// Updates the pids limit or the CPU shares, as an engine does. Checks that the pids limit of
    /// the last successful update is effective, also after an update of the CPU shares.
    fn update(&mut self, life: &mut Life) {
        let limit = self.rng.within(1000..1_000_000).to_string();
        let shares = self.rng.within(2..4000).to_string();
        let sets_limit = self.rng.percent(50);
        let flag = if sets_limit { ["--pids-limit", &limit] } else { ["--cpu-share", &shares] };
        let updated = self.call(FAULT_PERCENT, &["update", flag[0], flag[1], &life.id]);
        if sets_limit {
            if updated.is_ok() {
                life.limits.clear();
            } else if life.limits.is_empty() {
                // config.json sets no limit, so "max" is effective if the update failed.
                life.limits.insert("max".to_owned());
            }
            life.limits.insert(limit);
        }
        let cgroup = self.run.cgroup(&life.id);
        if let Ok(found) = self.run.node.try_cgroup_file(&cgroup, "pids", "pids.max", "pids.max")
            && !life.limits.is_empty()
            && !life.limits.contains(&found)
            // The runtime of a killed wrapper may write the value of this update a moment later.
            && !updated.interrupted
        {
            self.run.report_defect(format!(
                "pids.max of {} is {found} instead of one of {:?}",
                life.id, life.limits
            ));
        }
    }

    /// Kills the container in some life cycles, and deletes it.
    fn end(&mut self, life: Life, work: Work) {
        let id = life.id.as_str();
        if self.rng.percent(60) && work == Work::Long && self.run.runtime_has(id) {
            let killed = self.call(FAULT_PERCENT, &["kill", id, "KILL"]);
            if killed.is_ok() {
                self.wait_for_end(id);
                self.call(FAULT_PERCENT, &["delete", id]);
            }
        }
        self.remove(id);
        lock(&self.run.ids).remove(id);
        self.reusable_id = Some(id.to_owned());
    }

    /// Waits until the process of a killed container has ended.
    fn wait_for_end(&self, id: &str) {
        let pid = self.run.node.state(id).and_then(|state| state["pid"].as_u64()).unwrap_or(0);
        let process = Process(pid as u32);
        wait_until(format_args!("the end of {id}"), || {
            (pid == 0 || !process.is_alive()).then_some(())
        });
    }

    /// Calls `delete --force`, as engines do, until the runtime no longer has the container.
    fn remove(&mut self, id: &str) {
        for percent in [FAULT_PERCENT, FAULT_PERCENT, 0, 0] {
            let deleted = self.call(percent, &["delete", "--force", id]);
            if deleted.is_ok() && !deleted.interrupted {
                if !self.run.runtime_has(id) {
                    return;
                }
                if !self.was_interrupted(id) {
                    self.run.report_defect(format!(
                        "the delete of {id} succeeded, but the runtime still has the container"
                    ));
                }
            } else if !deleted.interrupted && !self.run.runtime_has(id) {
                return;
            }
        }
        if self.was_interrupted(id) {
            // A killed runtime may leave state that neither `delete` nor the wrapper can remove.
            let bare = self.run.node.bare(&["delete", "--force", id]);
            self.run.note(format!("bare delete of {id}: {:?} {}", bare.code, bare.err()));
            let _ = fs::remove_dir_all(self.run.node.root().join(id));
            return;
        }
        self.run.report_defect(format!("{id} cannot be deleted"));
    }
}

/// Returns the ids and statuses of the runtime's containers.
pub(super) fn containers_of_host(run: &Run) -> Vec<(String, String)> {
    let names = fs::read_dir(run.node.root()).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let containers = names.filter_map(|id| {
        let state: Value = run.node.state(&id)?;
        Some((id, state["status"].as_str()?.to_owned()))
    });
    containers.collect()
}
