//! Runs the life cycle of a container, and a second one from the same bundle, with one crash point.

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

/// Runs a life cycle, or a start of `nrid`, with this crash point. Returns the change that the
/// crash prevented; `None` if the point was not reached.
pub(crate) fn run(host: &mut Host, point: &Point) -> Option<String> {
    match point.victim {
        Victim::Starting => starting::start(host, point),
        _ => life_cycle(host, point),
    }
}

/// Counts the points of each group in life cycles without a crash.
pub(crate) fn count(host: &mut Host) -> BTreeMap<Group, usize> {
    let mut counts = BTreeMap::new();
    let same_points: [&[Victim]; 3] = [
        &[Victim::Nrid, Victim::NridAndWrapper],
        &[Victim::Wrapper, Victim::WrapperAndNrid],
        &[Victim::Runtime],
    ];
    for victims in same_points {
        run(host, &Point { victim: victims[0], step: None, at: 0 });
        let counted = host.take_counted();
        for victim in victims {
            counts.extend(counted.iter().map(|(step, n)| ((*victim, *step), *n)));
        }
    }
    run(host, &Point { victim: Victim::Starting, step: None, at: 0 });
    counts.extend(host.take_counted().into_iter().map(|(step, n)| ((Victim::Starting, step), n)));
    counts
}

/// Runs a life cycle; returns the change that the crash prevented, if the point was reached.
fn life_cycle(host: &mut Host, point: &Point) -> Option<String> {
    let (id, bundle) = host.next_bundle();
    let mut life = LifeCycle { host, id, bundle, point, crash: None, killed: None };
    life.host.set_neighbour();
    let following = life.follow();
    let mut checked = false;
    for step in Step::ALL {
        let killed_before = life.killed.is_some();
        life.step(step);
        if killed_before && !checked && step.starts_nrid() {
            life.host.wait_until_all_agree(&format!("after {}", step.name()));
            checked = true;
        }
    }
    life.host.wait_until_all_agree_after_last_verb();
    // The crash may have prevented work that was pending when the last verb returned.
    life.note_killed(Step::Remove);
    leftovers::check(life.host, &life.id, &life.bundle);
    if let (Some(crash), Some(_)) = (&life.crash, &following) {
        life.host.count(None, crash.points().len());
    }
    drop(following);
    life.killed.map(|(step, change)| format!("{} killed before {change}", step.name()))
}

impl LifeCycle<'_> {
    /// Traces `nrid` during the whole life cycle, if the crash point is one of `nrid`.
    fn follow(&mut self) -> Option<Following> {
        if self.kills_wrapper() {
            return None;
        }
        let nrid = self.host.node.nrid().expect("nrid runs");
        let crash = self.point.crash(&self.host.node);
        let following = crash.follow(nrid);
        self.crash = Some(crash);
        Some(following)
    }

    fn step(&mut self, step: Step) {
        let mut command = self.host.node.wrapper();
        command.args(engine::arguments(self, step));
        let traced = self.kills_wrapper() && self.point.step.is_none_or(|other| other == step);
        if traced {
            let crash = self.point.crash(&self.host.node);
            command = crash.of(&command);
            self.crash = Some(crash);
        }
        let ended = self.host.node.run(command);
        if let (Some(crash), true) = (&self.crash, traced) {
            self.host.count(Some(step), crash.points().len());
        }
        let killed_now = self.note_killed(step);
        self.host.note(format!(
            "{}: {:?} {:?} {}",
            step.name(),
            ended.code,
            ended.signal,
            ended.err().trim_end()
        ));
        if ended.code != Some(0) {
            // With `nrid+wrapper`, the wrapper that is killed may be that of the next verb.
            let killed_now = killed_now || (self.killed.is_some() && ended.signal == Some(9));
            let only_nrid = killed_now && self.point.victim == Victim::Nrid;
            self.clean_up_and_retry(step, &ended, killed_now, only_nrid);
        }
        self.check(step);
    }

    /// Records the crash if it has happened; returns whether it is new.
    fn note_killed(&mut self, step: Step) -> bool {
        let killed = self.crash.as_ref().and_then(Crash::killed).filter(|_| self.killed.is_none());
        if let Some(change) = &killed {
            self.host.note(format!("KILLED before {change}"));
            self.killed = Some((step, change.clone()));
        }
        killed.is_some()
    }

    /// Cleans up after a failed verb and calls it again, as an engine does.
    fn clean_up_and_retry(&mut self, step: Step, ended: &Ended, killed_now: bool, only_nrid: bool) {
        if !killed_now {
            self.host.wrong(format!(
                "{} failed without a crash: {}",
                step.name(),
                ended.err().trim_end()
            ));
        }
        if only_nrid && let Some(why) = message_defect(&ended.err()) {
            self.host.wrong(format!("{} failed, {why}: {:?}", step.name(), ended.err()));
        }
        self.host.count_failed(step);
        leftovers::check_config(self.host, &self.bundle);
        engine::retry(self, step);
    }

    /// Checks the effect of a verb that succeeded.
    fn check(&mut self, step: Step) {
        let adjusted = String::from_utf8_lossy(&self.bundle.bytes()).contains("CRASH=yes");
        match step {
            Step::Create | Step::Run if !adjusted => {
                self.host.wrong("config.json is not adjusted");
            }
            Step::Update => {
                let limit =
                    |id: &str| self.host.node.kernel_file(id, "pids", "pids.max", "pids.max").ok();
                let (own, neighbour) = (limit(&self.id), limit(&self.host.neighbour));
                if own.as_deref() != Some(PIDS) || neighbour.as_deref() != Some(NEIGHBOUR_AFTER) {
                    self.host.wrong(format!(
                        "pids limits after the update: {own:?} and, of the neighbour, {neighbour:?}"
                    ));
                }
            }
            Step::Kill => engine::wait_for_end(self),
            Step::Delete | Step::Remove if self.host.has(&self.id) => {
                self.host.wrong("the runtime still has the deleted container");
            }
            _ => {}
        }
        leftovers::check_config(self.host, &self.bundle);
    }
}
