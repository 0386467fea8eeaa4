//! What an engine calls, and what it does when a verb fails or its runtime is killed: it cleans up,
//! and tries again.

use crate::{host::PIDS, leftovers, life_cycle::LifeCycle, step::Step};
use nri_integration::{Ended, Process, cgroups_of, wait_until};
use rustix::process::Signal;
use std::fs;

/// The wrapper's arguments.
pub(crate) fn arguments(life: &LifeCycle<'_>, step: Step) -> Vec<String> {
    let text = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    let (id, dir) = (life.id.as_str(), life.bundle.dir().to_str().expect("our paths are UTF-8"));
    match step {
        Step::Create => text(&["create", "--bundle", dir, id]),
        Step::Start => text(&["start", id]),
        Step::Update => text(&["update", "--pids-limit", PIDS, id]),
        Step::Exec => {
            let process = life.host.node.path("process.json");
            text(&["exec", "--process", process.to_str().expect("our paths are UTF-8"), id])
        }
        Step::Kill => text(&["kill", id, "KILL"]),
        Step::Delete => text(&["delete", id]),
        Step::Run => text(&["run", "--detach", "--bundle", dir, id]),
        Step::Remove => text(&["delete", "--force", id]),
    }
}

/// Calls a verb that has failed once more, as engines do.
pub(crate) fn again(life: &mut LifeCycle<'_>, step: Step) {
    match step {
        Step::Create | Step::Run => {
            // Some clean up in any case, others only what exists.
            if life.odd() || life.host.has(&life.id) {
                remove(life);
            }
            nothing_came_of_it(life);
            call(life, step);
        }
        // runc that was killed in a start waits for ever in the next one: bare runc does, too.
        Step::Start if life.is_torn() => {
            remove(life);
            nothing_came_of_it(life);
            call(life, Step::Create);
            call(life, Step::Start);
        }
        Step::Start => match life.host.status(&life.id).as_deref() {
            // It was done, and only the answer did not come.
            Some("running") => {}
            Some("created") => call(life, step),
            other => life.host.wrong(format!("a start leaves it {other:?}")),
        },
        Step::Update => {
            life.host.node.ctl(&["start"]).success();
            life.host.wait_until_all_agree("after an update that failed");
            call(life, step);
        }
        Step::Exec => call(life, step),
        Step::Kill => {
            if life.host.status(&life.id).as_deref() == Some("running") {
                call(life, step);
            }
        }
        Step::Delete | Step::Remove => remove(life),
    }
}

/// Checks that a failed creation left nothing: an engine may not try again.
fn nothing_came_of_it(life: &mut LifeCycle<'_>) {
    life.host.node.ctl(&["start"]).success();
    life.host.wait_until_all_agree("after a creation that failed");
    leftovers::check(life.host, &life.id, &life.bundle);
}

fn call(life: &mut LifeCycle<'_>, step: Step) {
    let arguments = arguments(life, step);
    let ended = made(life, &arguments);
    if ended.code != Some(0) {
        life.host.wrong(format!("{} fails again: {}", step.name(), ended.err().trim_end()));
    }
}

fn remove(life: &mut LifeCycle<'_>) {
    let id = life.id.clone();
    let ended = made(life, &["delete".into(), "--force".into(), id.clone()]);
    if life.is_torn() {
        by_hand(life);
    }
    if life.host.has(&id) {
        life.host.wrong(format!("it cannot be deleted: {}", ended.err().trim_end()));
    }
}

/// Removes what a killed runtime has left and does not know.
fn by_hand(life: &mut LifeCycle<'_>) {
    let cgroups = cgroups_of(&life.id);
    let torn = life.host.has(&life.id);
    if cgroups.is_empty() && !torn {
        return;
    }
    life.host.note(format!("left by the runtime: a state: {torn}, {} cgroups", cgroups.len()));
    for process in Process::all().into_iter().filter(|process| process.cgroups().contains(&life.id))
    {
        // It may go by itself.
        let pid = i32::try_from(process.0).ok().and_then(rustix::process::Pid::from_raw);
        let _ = rustix::process::kill_process(pid.expect("a process id"), Signal::KILL);
        wait_until("the end of what a runtime has left", || (!process.is_alive()).then_some(()));
    }
    for cgroup in cgroups.iter().rev() {
        let _ = fs::remove_dir(cgroup);
    }
    let _ = fs::remove_dir_all(life.host.node.root().join(&life.id));
}

fn made(life: &mut LifeCycle<'_>, arguments: &[String]) -> Ended {
    let list: Vec<_> = arguments.iter().map(String::as_str).collect();
    let ended = life.host.node.call(&list);
    life.host.note(format!("again: {}: {:?} {}", list[0], ended.code, ended.err().trim_end()));
    ended
}

/// Waits until a container that was killed has ended.
pub(crate) fn ended(life: &LifeCycle<'_>) {
    let state = life.host.node.state(&life.id).unwrap_or_default();
    let process = Process(state["pid"].as_u64().unwrap_or(0) as u32);
    wait_until("its end", || (process.0 == 0 || !process.is_alive()).then_some(()));
}
