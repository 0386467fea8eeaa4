//! Calls that an engine makes: the verbs of a life cycle, and the cleanup and retry of a verb that
//! failed or whose runtime was killed.

use crate::{
    host::{MEMORY_AFTER, MEMORY_BEFORE, PIDS},
    leftovers,
    life_cycle::LifeCycle,
    step::Step,
};
use nri_integration::{Ended, Process, cgroups_of, wait_until};
use rustix::process::Signal;
use std::fs;

/// Returns the wrapper's arguments for a verb.
pub(crate) fn arguments(life: &LifeCycle<'_>, step: Step) -> Vec<String> {
    let text = |list: &[&str]| list.iter().map(|argument| (*argument).to_owned()).collect();
    let (id, dir) =
        (life.id.as_str(), life.bundle.dir().to_str().expect("paths of tests are UTF-8"));
    match step {
        Step::Create => text(&["create", "--bundle", dir, id]),
        Step::Start => text(&["start", id]),
        Step::Update => text(&["update", "--pids-limit", PIDS, id]),
        Step::Exec => {
            let process = life.host.node.path("process.json");
            text(&["exec", "--process", process.to_str().expect("paths of tests are UTF-8"), id])
        }
        Step::Kill => text(&["kill", id, "KILL"]),
        Step::Delete => text(&["delete", id]),
        Step::Run => text(&["run", "--detach", "--bundle", dir, id]),
        Step::Remove => text(&["delete", "--force", id]),
    }
}

/// Calls a failed verb again, as engines do.
pub(crate) fn retry(life: &mut LifeCycle<'_>, step: Step) {
    match step {
        Step::Create | Step::Run => {
            // Some engines always delete the container before the retry, others only if it exists.
            let exists = life.host.runtime_has(&life.id);
            if life.at_odd_point() || exists {
                remove(life);
            }
            check_nothing_created(life);
            if !exists {
                // A container was created before `run`.
                let is_first = step == Step::Create;
                let expected = if is_first { MEMORY_BEFORE } else { MEMORY_AFTER };
                life.host.check_neighbor_memory(expected);
            }
            call(life, step);
        }
        // If runc is killed during `start`, the next `start` blocks forever, with bare runc, too.
        Step::Start if life.runtime_was_killed() => {
            remove(life);
            check_nothing_created(life);
            call(life, Step::Create);
            call(life, Step::Start);
        }
        Step::Start => match life.host.status(&life.id).as_deref() {
            // The runtime started the container, but the wrapper was killed before it exited.
            Some("running") => {}
            Some("created") => call(life, step),
            other => {
                life.host.report_defect(format!("the container is {other:?} after a failed start"));
            }
        },
        Step::Update => {
            life.host.node.ctl(&["start"]).success();
            life.host.wait_until_all_agree("after a failed update");
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

/// Checks that a failed creation left only the bundle, because some engines neither retry the
/// creation nor delete the container.
fn check_nothing_created(life: &mut LifeCycle<'_>) {
    life.host.node.ctl(&["start"]).success();
    life.host.wait_until_all_agree("after a failed creation");
    leftovers::check(life.host, &life.id, &life.bundle);
}

/// Calls a verb that must succeed.
fn call(life: &mut LifeCycle<'_>, step: Step) {
    let arguments = arguments(life, step);
    let ended = call_wrapper(life, &arguments);
    if ended.code != Some(0) {
        life.host.report_defect(format!(
            "the retried {} failed: {}",
            step.name(),
            ended.err().trim_end()
        ));
    }
}

/// Deletes the container with `--force`, and what a killed runtime left.
fn remove(life: &mut LifeCycle<'_>) {
    let id = life.id.clone();
    let ended = call_wrapper(life, &["delete".into(), "--force".into(), id.clone()]);
    if life.runtime_was_killed() {
        remove_leftovers(life);
    }
    if life.host.runtime_has(&id) {
        life.host
            .report_defect(format!("the container cannot be deleted: {}", ended.err().trim_end()));
    }
}

/// Removes the processes, cgroups and state that a killed runtime left and that its `delete` does
/// not remove.
fn remove_leftovers(life: &mut LifeCycle<'_>) {
    let cgroups = cgroups_of(&life.id);
    let has_state = life.host.runtime_has(&life.id);
    if cgroups.is_empty() && !has_state {
        return;
    }
    life.host.note(format!(
        "the runtime left {} cgroups; its state directory exists: {has_state}",
        cgroups.len()
    ));
    for process in Process::all().into_iter().filter(|process| process.cgroups().contains(&life.id))
    {
        // The signal fails if the process has ended.
        let pid = i32::try_from(process.0).ok().and_then(rustix::process::Pid::from_raw);
        let _ =
            rustix::process::kill_process(pid.expect("the id is a valid process id"), Signal::KILL);
        wait_until("the end of a process left by the runtime", || {
            (!process.is_alive()).then_some(())
        });
    }
    for cgroup in cgroups.iter().rev() {
        let _ = fs::remove_dir(cgroup);
    }
    let _ = fs::remove_dir_all(life.host.node.root().join(&life.id));
}

fn call_wrapper(life: &mut LifeCycle<'_>, arguments: &[String]) -> Ended {
    let list: Vec<_> = arguments.iter().map(String::as_str).collect();
    let ended = life.host.node.call(&list);
    life.host.note(format!("retry: {}: {:?} {}", list[0], ended.code, ended.err().trim_end()));
    ended
}

/// Waits until the process of a killed container has ended.
pub(crate) fn wait_for_end(life: &LifeCycle<'_>) {
    let state = life.host.node.state(&life.id).unwrap_or_default();
    let process = Process(state["pid"].as_u64().unwrap_or(0) as u32);
    wait_until("the end of the container", || {
        (process.0 == 0 || !process.is_alive()).then_some(())
    });
}
