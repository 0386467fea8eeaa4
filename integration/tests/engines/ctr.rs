//! Tests of containerd through its client `ctr`: `run`, `tasks exec`, terminals.
//!
//! `ctr` may lose output that a process writes right before it exits, also with bare runc.
//! Therefore the containers of these tests report results by their exit codes.

mod errors;
mod install;
mod life_cycle;

use nri_integration::{engines::*, *};

pub(crate) const IMAGE: &str = "localhost/busybox:local";
/// Configuration of a plugin that sets one variable.
pub(crate) const SET_ENV_A: &str = "[create]\nenv = { set = { A = 'b' } }\n";

/// Returns the arguments of `ctr run` with this runtime.
fn run_arguments<'a>(
    runtime: &'a str,
    options: &[&'a str],
    id: &'a str,
    command: &[&'a str],
) -> Vec<&'a str> {
    [&["run", "--runc-binary", runtime, "--net-host"], options, &[IMAGE, id], command].concat()
}

/// Calls `ctr run` with the wrapper.
pub(crate) fn run(containerd: &Containerd, options: &[&str], id: &str, command: &[&str]) -> Ended {
    let launcher = containerd.launcher();
    containerd.ctr(&run_arguments(launcher.to_str().unwrap(), options, id, command))
}

/// Calls `ctr run` with the bare runtime.
pub(crate) fn run_bare(
    containerd: &Containerd,
    options: &[&str],
    id: &str,
    command: &[&str],
) -> Ended {
    let runc = containerd.runtime().path.clone();
    containerd.ctr(&run_arguments(runc.to_str().unwrap(), options, id, command))
}

/// Returns the process id of a container, as containerd reports it.
pub(crate) fn pid(containerd: &Containerd, id: &str) -> u32 {
    let tasks = containerd.ctr(&["tasks", "ls"]).success().out();
    let pid = tasks
        .lines()
        .find_map(|line| line.strip_prefix(id)?.split_whitespace().next()?.parse().ok());
    pid.unwrap_or_else(|| panic!("`ctr tasks ls` does not list {id}: {tasks}"))
}

/// Kills the process of a container, waits until the plugin has received StopContainer, and deletes
/// the task.
pub(crate) fn kill_and_delete(containerd: &Containerd, journal: &Journal, id: &str) {
    let process = containerd.process(pid(containerd, id));
    let stops = || journal.events(id).iter().filter(|e| *e == "StopContainer").count();
    let before = stops();
    containerd.ctr(&["tasks", "kill", "--signal", "SIGKILL", id]).success();
    process.wait_for_end();
    wait_until("StopContainer after the exit", || (stops() > before).then_some(()));
    delete_task(containerd, id);
}

/// Deletes a task. Repeats the call until containerd has recorded that the task stopped.
pub(crate) fn delete_task(containerd: &Containerd, id: &str) {
    wait_until(format_args!("containerd to delete {id}"), || {
        (containerd.ctr(&["tasks", "delete", id]).code == Some(0)
            || !containerd.ctr(&["tasks", "ls", "--quiet"]).out().lines().any(|l| l == id))
        .then_some(())
    });
}

#[test]
fn ctr_run_in_the_foreground_is_adjusted() {
    for_each_suite("ctr run --rm", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch("10-adjust", &Program::Adjust, SET_ENV_A);
        let id = containerd.id("c");
        let ended =
            run(&containerd, &["--rm"], &id, &["/bin/sh", "-c", "test \"$A\" = b && exit 7"]);
        assert_eq!(ended.code, Some(7), "{}", ended.err());
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
        assert_eq!(containerd.status().unwrap()["containers"], 0);
        assert_eq!(containerd.ctr(&["containers", "ls", "--quiet"]).out(), "");
    });
}

#[test]
fn ctr_run_with_tty_gives_the_container_a_terminal() {
    for_each_suite("ctr run --tty", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch("10-adjust", &Program::Adjust, SET_ENV_A);
        let id = containerd.id("c");
        let launcher = containerd.launcher();
        let script = "echo \"A=$A on $(tty).\"; read -r answer; test $answer = yes && exit 7";
        let command = run_arguments(
            launcher.to_str().unwrap(),
            &["--rm", "--tty"],
            &id,
            &["/bin/sh", "-c", script],
        );
        let terminal = Terminal::run(&containerd.ctr_command(&command));
        terminal.wait_for("A=b on /dev/");
        terminal.write("yes\r");
        assert_eq!(terminal.wait_for_exit(), Some(7));
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]));
    });
}

#[test]
fn ctr_exec_sees_what_plugins_added() {
    for_each_suite("ctr tasks exec", "containerd", |suite| {
        let containerd = Containerd::start(suite);
        let journal = containerd.launch("10-adjust", &Program::Adjust, SET_ENV_A);
        let id = containerd.id("c");
        run(&containerd, &["--detach"], &id, &["/bin/sleep", "1000"]).success();
        let exec = |name: &str, script: &str| {
            containerd.ctr(&["tasks", "exec", "--exec-id", name, &id, "/bin/sh", "-c", script])
        };
        let ended = exec("e1", "test \"$A\" = b && exit 9");
        assert_eq!(ended.code, Some(9), "{}", ended.err());
        let script = "tty; read -r answer; exit 8";
        let command = ["tasks", "exec", "--exec-id", "e2", "--tty", &id, "/bin/sh", "-c", script];
        let terminal = Terminal::run(&containerd.ctr_command(&command));
        terminal.wait_for("/dev/");
        terminal.write("yes\r");
        assert_eq!(terminal.wait_for_exit(), Some(8));
        kill_and_delete(&containerd, &journal, &id);
        journal.wait_for("RemovePodSandbox", &id);
        assert_eq!(journal.events(&id), life_cycle(&[]), "exec must send no event");
    });
}
