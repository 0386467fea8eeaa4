//! The life of a container, one verb after the other, and once more from the same bundle. Something
//! is killed in the middle of it.

use crate::{
    engine,
    host::{Host, NEIGHBOUR_AFTER, PIDS},
    leftovers,
    life_cycle::LifeCycle,
    point::{Group, Point, Victim},
    starting,
    step::Step,
};
use nri_integration::{Crash, Ended, Following, message_defect};
use std::collections::BTreeMap;

/// Runs a life cycle, or a start, with this crash point. Returns the change that was prevented;
/// none if the point was not reached.
pub(crate) fn live(host: &mut Host, point: &Point) -> Option<String> {
    match point.victim {
        Victim::Starting => starting::start(host, point),
        _ => life_cycle(host, point),
    }
}

/// Counts the points of each group in life cycles in which nothing is killed.
pub(crate) fn count(host: &mut Host) -> BTreeMap<Group, usize> {
    let mut counts = BTreeMap::new();
    let alike: [&[Victim]; 3] = [
        &[Victim::Nrid, Victim::NridAndWrapper],
        &[Victim::Wrapper, Victim::WrapperAndNrid],
        &[Victim::Runtime],
    ];
    for victims in alike {
        live(host, &Point { victim: victims[0], step: None, at: 0 });
        let counted = host.take_counted();
        for victim in victims {
            counts.extend(counted.iter().map(|(step, n)| ((*victim, *step), *n)));
        }
    }
    live(host, &Point { victim: Victim::Starting, step: None, at: 0 });
    counts.extend(host.take_counted().into_iter().map(|(step, n)| ((Victim::Starting, step), n)));
    counts
}

/// Runs a life cycle; returns the change that was prevented, if the point was reached.
fn life_cycle(host: &mut Host, point: &Point) -> Option<String> {
    let (id, bundle) = host.next_bundle();
    let mut life = LifeCycle { host, id, bundle, point, crash: None, killed: None };
    life.host.set_neighbour();
    let following = life.follow();
    let mut wait_for_no_objection = false;
    for step in Step::ALL {
        let before = life.killed.is_some();
        life.step(step);
        if before && !wait_for_no_objection && step.brings_nrid() {
            life.host.wait_until_all_agree(&format!("after {}", step.name()));
            wait_for_no_objection = true;
        }
    }
    life.host.wait_until_all_agree_in_the_end();
    // What is owed after the last verb's end may be what was not done.
    life.note_killed(Step::Remove);
    leftovers::check(life.host, &life.id, &life.bundle);
    if let (Some(crash), Some(_)) = (&life.crash, &following) {
        life.host.count(None, crash.points().len());
    }
    drop(following);
    life.killed.map(|(step, what)| format!("{} killed before {what}", step.name()))
}

impl LifeCycle<'_> {
    /// Follows `nrid` through this whole life cycle, if it is what is killed.
    fn follow(&mut self) -> Option<Following> {
        if self.is_wrappers() {
            return None;
        }
        let nrid = self.host.node.nrid().expect("it was started");
        let crash = self.point.crash(&self.host.node);
        let following = crash.follow(nrid);
        self.crash = Some(crash);
        Some(following)
    }

    fn step(&mut self, step: Step) {
        let mut command = self.host.node.wrapper();
        command.args(engine::arguments(self, step));
        let of_wrapper = self.is_wrappers() && self.point.step.is_none_or(|its| its == step);
        if of_wrapper {
            let crash = self.point.crash(&self.host.node);
            command = crash.of(&command);
            self.crash = Some(crash);
        }
        let ended = self.host.node.run(command);
        if let (Some(crash), true) = (&self.crash, of_wrapper) {
            self.host.count(Some(step), crash.points().len());
        }
        let now = self.note_killed(step);
        self.host.note(format!(
            "{}: {:?} {:?} {}",
            step.name(),
            ended.code,
            ended.signal,
            ended.err().trim_end()
        ));
        if ended.code != Some(0) {
            // What is killed with it may be the next one that is called.
            let now = now || (self.killed.is_some() && ended.signal == Some(9));
            let spared = now && self.point.victim == Victim::Nrid;
            self.failed(step, &ended, now, spared);
        }
        self.check(step);
    }

    /// Notes the crash if it has happened; returns whether it is new.
    fn note_killed(&mut self, step: Step) -> bool {
        let killed = self.crash.as_ref().and_then(Crash::killed).filter(|_| self.killed.is_none());
        if let Some(what) = &killed {
            self.host.note(format!("KILLED before {what}"));
            self.killed = Some((step, what.clone()));
        }
        killed.is_some()
    }

    /// Does what an engine does after a failure: it cleans up and tries again.
    fn failed(&mut self, step: Step, ended: &Ended, now: bool, spared: bool) {
        if !now {
            self.host.wrong(format!(
                "{} fails without a reason: {}",
                step.name(),
                ended.err().trim_end()
            ));
        }
        if spared && let Some(why) = message_defect(&ended.err()) {
            self.host.wrong(format!("{} fails and {why}: {:?}", step.name(), ended.err()));
        }
        self.host.count_failed(step);
        leftovers::config(self.host, &self.bundle);
        engine::again(self, step);
    }

    /// Checks the effect of a verb that succeeded.
    fn check(&mut self, step: Step) {
        let adjusted = String::from_utf8_lossy(&self.bundle.bytes()).contains("CRASH=yes");
        match step {
            Step::Create | Step::Run if !adjusted => {
                self.host.wrong("the document is not the adjusted one");
            }
            Step::Update => {
                let limit =
                    |id: &str| self.host.node.kernel_file(id, "pids", "pids.max", "pids.max").ok();
                let (own, neighbour) = (limit(&self.id), limit(&self.host.neighbour));
                if own.as_deref() != Some(PIDS) || neighbour.as_deref() != Some(NEIGHBOUR_AFTER) {
                    self.host
                        .wrong(format!("after the update there are {own:?} and {neighbour:?}"));
                }
            }
            Step::Kill => engine::ended(self),
            Step::Delete | Step::Remove if self.host.has(&self.id) => {
                self.host.wrong("deleted, and the runtime has it");
            }
            _ => {}
        }
        leftovers::config(self.host, &self.bundle);
    }
}
