//! Clients of an engine: each makes life cycles of containers, one after the other, and checks on
//! the host what a call reports.

use super::{
    calls::{Outcome, call},
    rng::Rng,
    run::{Run, lock},
};
use nri_integration::{Process, wait_until};
use serde_json::Value;
use std::{collections::BTreeSet, fs};

/// How many of a hundred calls are disturbed.
const DISTURBED: u64 = 12;
/// How many containers a client leaves until the end.
const STAY: usize = 4;
/// Pods without a sandbox container, which containers of all clients share.
const SHARED: u64 = 2;

/// What a container runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Until it is killed.
    Long,
    /// Ends by itself with this code.
    Short(i32),
}

pub(super) struct Client<'a> {
    run: &'a Run,
    rng: Rng,
    name: usize,
    life_cycles: usize,
    stayed: usize,
    /// An id whose container is gone.
    free: Option<String>,
}

/// A container during its life cycle.
struct Life {
    id: String,
    /// The pids limits that may be effective; empty: no update has set one.
    limits: BTreeSet<String>,
}

impl<'a> Client<'a> {
    pub(super) fn new(run: &'a Run, name: usize) -> Self {
        let rng = Rng::new(run.seed, name as u64);
        Self { run, rng, name, life_cycles: 0, stayed: 0, free: None }
    }

    pub(super) fn live(mut self) {
        while !self.run.is_over() {
            match self.rng.within(0..10) {
                0 => self.pod(),
                1..4 => {
                    let pod = self.run.node.id(&format!("pod{}", self.rng.within(0..SHARED)));
                    self.one(Some(&pod));
                }
                _ => self.one(None),
            }
        }
    }

    /// A pod with a sandbox container, which exists before its containers and ends after them.
    fn pod(&mut self) {
        let sandbox = self.bundle(Work::Long, Some(None));
        let mut life = Life { id: sandbox.clone(), limits: BTreeSet::new() };
        if self.create_and_start(&mut life) {
            for _ in 0..self.rng.within(0..3) {
                let (id, work) = self.begin(Some(&sandbox));
                let member = self.begun(id, work);
                self.end(member, work);
            }
        }
        self.end(life, Work::Long);
        // No engine uses a sandbox's id again.
        self.free = None;
    }

    fn one(&mut self, pod: Option<&str>) {
        let (id, work) = self.begin(pod);
        let life = self.begun(id, work);
        let stays = self.stayed < STAY && self.rng.percent(8);
        if stays && self.run.node.state(&life.id).is_some() {
            self.stayed += 1;
        } else {
            self.end(life, work);
        }
    }

    fn begin(&mut self, pod: Option<&str>) -> (String, Work) {
        let work = match self.rng.within(0..10) {
            0..6 => Work::Long,
            6..9 => Work::Short(7),
            _ => Work::Short(0),
        };
        (self.bundle(work, pod.map(Some)), work)
    }

    fn begun(&mut self, id: String, work: Work) -> Life {
        self.run.count("lives");
        if self.rng.percent(65) { self.created(id, work) } else { self.ran(id, work) }
    }

    /// A new one, or that of a container that is gone, as it stands or written anew. `pod`: in one;
    /// `Some(None)`: it is one's sandbox.
    fn bundle(&mut self, work: Work, pod: Option<Option<&str>>) -> String {
        self.life_cycles += 1;
        let arguments: &[&str] = match work {
            Work::Long => &["/bin/sleep", "1000"],
            Work::Short(0) => &["/bin/true"],
            Work::Short(_) => &["/bin/sh", "-c", "echo it ends >&2; exit 7"],
        };
        let again = if self.rng.percent(25) && pod != Some(None) { self.free.take() } else { None };
        let id = again
            .unwrap_or_else(|| self.run.node.id(&format!("{}-{}", self.name, self.life_cycles)));
        let dir = self.run.bundle(&id);
        let _ = fs::create_dir(&dir);
        let pod = pod.map(|pod| pod.unwrap_or(&id));
        let config = self.run.config(&id, pod, arguments);
        fs::write(dir.join("config.json"), &config).expect("our directory");
        lock(&self.run.configs).insert(id.clone(), config);
        lock(&self.run.pods).insert(id.clone(), pod.unwrap_or(&id).to_owned());
        lock(&self.run.ids).insert(id.clone());
        id
    }

    fn call(&mut self, percent: u64, arguments: &[&str]) -> Outcome {
        let outcome = call(self.run, &mut self.rng, percent, arguments);
        if outcome.cut_short {
            let id = arguments.iter().find(|a| a.starts_with(self.run.node.prefix()));
            lock(&self.run.torn).insert((*id.expect("calls are about a container")).to_owned());
        }
        outcome
    }

    /// `create`, `start`, and what comes between that and the end.
    fn created(&mut self, id: String, work: Work) -> Life {
        let mut life = Life { id, limits: BTreeSet::new() };
        if self.create_and_start(&mut life) && work == Work::Long {
            self.use_it(&mut life);
        }
        life
    }

    /// Whether it has started.
    fn create_and_start(&mut self, life: &mut Life) -> bool {
        let bundle = self.run.bundle(&life.id);
        let bundle = bundle.to_str().expect("our paths are UTF-8");
        for _ in 0..2 {
            let created = self.call(DISTURBED, &["create", "--bundle", bundle, &life.id]);
            if self.made(life, &created, &["created"]) {
                break;
            }
            if created.cut_short || self.rng.percent(50) {
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
        self.made(life, &started, &["running", "stopped"])
    }

    fn ran(&mut self, id: String, work: Work) -> Life {
        let bundle = self.run.bundle(&id);
        let bundle = bundle.to_str().expect("our paths are UTF-8");
        let mut life = Life { id, limits: BTreeSet::new() };
        let foreground = work != Work::Long && self.rng.percent(60);
        if foreground {
            let ran = self.call(DISTURBED, &["run", "--bundle", bundle, &life.id]);
            if let (Work::Short(code), true) = (work, ran.code == Some(0) || ran.code == Some(7))
                && ran.code != Some(code)
                && !ran.cut_short
            {
                self.run.wrong(format!(
                    "run of {} ends with {:?} in place of {code}",
                    life.id, ran.code
                ));
            }
            return life;
        }
        let ran = self.call(DISTURBED, &["run", "--detach", "--bundle", bundle, &life.id]);
        if self.made(&life, &ran, &["running", "stopped"]) && work == Work::Long {
            self.use_it(&mut life);
        }
        life
    }

    /// Whether a call did what it says: where it was a success, the container is one of these.
    fn made(&mut self, life: &Life, outcome: &Outcome, statuses: &[&str]) -> bool {
        let id = &life.id;
        if outcome.cut_short {
            return false;
        }
        if outcome.is_ok() {
            let state = self.run.node.state(id).unwrap_or_default();
            let status = state["status"].as_str().unwrap_or("not there");
            if !statuses.contains(&status) {
                self.run.wrong(format!("{id} should be {statuses:?} and is {status}"));
            }
        } else if statuses == ["created"] && self.run.has(id) && !self.is_torn(id) {
            self.run.wrong(format!("the creation of {id} failed, and the runtime has it"));
        }
        outcome.is_ok()
    }

    fn is_torn(&self, id: &str) -> bool {
        lock(&self.run.torn).contains(id)
    }

    fn use_it(&mut self, life: &mut Life) {
        for _ in 0..self.rng.within(0..3) {
            if self.rng.percent(40) {
                let executed = self.call(DISTURBED, &["exec", &life.id, "/bin/echo", "here"]);
                if executed.is_ok() && executed.out != "here\n" {
                    self.run.wrong(format!("exec in {} says {:?}", life.id, executed.out));
                }
            } else {
                self.update(life);
            }
        }
    }

    /// An update of the engine's. What it requested last is effective, if it was made; whatever
    /// else is updated.
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
                // That of config.json, which has none.
                life.limits.insert("max".to_owned());
            }
            life.limits.insert(limit);
        }
        if let Ok(found) = self.run.node.kernel_file(&self.run.cgroup(&life.id), "pids", "pids.max", "pids.max")
            && !life.limits.is_empty()
            && !life.limits.contains(&found)
            // The runtime of a wrapper that was killed may have the last word for a moment.
            && !updated.cut_short
        {
            self.run
                .wrong(format!("pids.max of {} is {found} in place of {:?}", life.id, life.limits));
        }
    }

    fn end(&mut self, life: Life, work: Work) {
        let id = life.id.as_str();
        if self.rng.percent(60) && work == Work::Long && self.run.has(id) {
            let killed = self.call(DISTURBED, &["kill", id, "KILL"]);
            if killed.is_ok() {
                self.ended(id);
                self.call(DISTURBED, &["delete", id]);
            }
        }
        self.remove(id);
        lock(&self.run.ids).remove(id);
        self.free = Some(id.to_owned());
    }

    fn ended(&self, id: &str) {
        let pid = self.run.node.state(id).and_then(|state| state["pid"].as_u64()).unwrap_or(0);
        let process = Process(pid as u32);
        wait_until(format_args!("the end of {id}"), || {
            (pid == 0 || !process.is_alive()).then_some(())
        });
    }

    /// As engines do: until it is gone.
    fn remove(&mut self, id: &str) {
        for percent in [DISTURBED, DISTURBED, 0, 0] {
            let deleted = self.call(percent, &["delete", "--force", id]);
            if deleted.is_ok() && !deleted.cut_short {
                if !self.run.has(id) {
                    return;
                }
                if !self.is_torn(id) {
                    self.run
                        .wrong(format!("the delete of {id} is a success, and the runtime has it"));
                }
            } else if !deleted.cut_short && !self.run.has(id) {
                return;
            }
        }
        if self.is_torn(id) {
            // What a runtime that was killed left, and cannot remove itself.
            let bare = self.run.node.bare(&["delete", "--force", id]);
            self.run.note(format!("bare delete of {id}: {:?} {}", bare.code, bare.err()));
            let _ = fs::remove_dir_all(self.run.node.root().join(id));
            return;
        }
        self.run.wrong(format!("{id} cannot be deleted"));
    }
}

/// What the runtime has, by id, with its status.
pub(super) fn containers_of_host(run: &Run) -> Vec<(String, String)> {
    let names = fs::read_dir(run.node.root()).into_iter().flatten();
    let names = names.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let there = names.filter_map(|id| {
        let state: Value = run.node.state(&id)?;
        Some((id, state["status"].as_str()?.to_owned()))
    });
    there.collect()
}
