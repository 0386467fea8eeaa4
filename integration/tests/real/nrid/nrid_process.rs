//! Tests of `nrid` as a process: it does not depend on the process that started it; SIGTERM and
//! `nrictl stop` end it cleanly; it refuses callers in other pid namespaces.

use nri_integration::*;
use rustix::process::Signal;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns a shell script that calls the wrapper as engines do: in a separate cgroup and session,
/// with descriptors that are not close-on-exec, and with a parent-death signal. `script_end`, the
/// last part of the script, calls the wrapper by the shell function `call`.
fn caller(node: &Node, script_end: &str) -> Command {
    let wrapper = node.wrapper();
    let call: Vec<_> = [wrapper.get_program()]
        .into_iter()
        .chain(wrapper.get_args())
        .map(|w| format!("'{}'", w.to_str().unwrap()))
        .collect();
    let script = format!(
        r#"
for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
  case $root in */cpuset) continue ;; esac
  [ -e "$root/cgroup.procs" ] || continue
  mkdir -p "$root/{prefix}/{caller}" && echo $$ > "$root/{prefix}/{caller}/cgroup.procs"
done
for n in $(seq 3 20); do eval "exec $n<>{file}"; done
call() {{ setpriv --pdeathsig KILL {call} "$@"; }}
{script_end}
"#,
        prefix = node.prefix(),
        caller = node.id("caller"),
        file = node.path("inherited").display(),
        call = call.join(" ")
    );
    let mut command = Command::new("setsid");
    command.args(["--wait", "bash", "-c", &script]).current_dir(node.path("bundles"));
    command
}

/// Guard that kills the caller when it is dropped, in case the test fails before it kills the
/// caller. The field is the path of the file with the caller's process id.
struct EndCaller(PathBuf);

impl Drop for EndCaller {
    fn drop(&mut self) {
        let pid = fs::read_to_string(&self.0).unwrap_or_default().trim().parse().map(Process);
        if let Some(caller) = pid.ok().filter(|p| p.is_alive()) {
            caller.signal(Signal::KILL);
            wait_until("the caller to exit", || (!caller.is_alive()).then_some(()));
        }
    }
}

#[test]
fn nrid_does_not_depend_on_the_process_that_started_it() {
    for_each_runtime("independence", |runtime| {
        let node = Node::new(runtime);
        node.launch("10-adjust", &Program::Adjust, "");
        fs::write(node.path("inherited"), "").unwrap();
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        let pid = node.path("caller.pid");
        // The caller sleeps after the creation, so that the test can kill it.
        let script_end = format!(
            "call create --bundle '{}' {id} || exit 1; echo $$ > '{pid}.new'; mv '{pid}.new' \
                '{pid}'; exec sleep 1000",
            bundle.dir().display(),
            pid = pid.display()
        );
        let _guard = EndCaller(pid.clone());
        let mut child = caller(&node, &script_end).spawn().unwrap();
        let caller = wait_until("the caller's create", || {
            assert!(matches!(child.try_wait(), Ok(None)), "the caller failed");
            fs::read_to_string(&pid).ok()?.trim().parse().ok().map(Process)
        });
        let nrid = node.nrid().expect("create started nrid");
        let plugin = Process(
            u32::try_from(node.status().unwrap()["plugins"][0]["pid"].as_u64().unwrap()).unwrap(),
        );
        for process in [nrid, plugin] {
            let files = process.files();
            assert!(!files.iter().any(|f| f.starts_with(node.path("inherited"))), "{files:?}");
            assert!(!files.iter().any(|f| f.starts_with(node.path("calls"))), "{files:?}");
            let cgroups = process.cgroups();
            assert!(!cgroups.contains(&node.id("caller")), "{cgroups}");
            assert_ne!(process.session(), caller.session());
        }
        assert_eq!(fs::read_link(format!("/proc/{}/cwd", nrid.0)).unwrap(), Path::new("/"));
        assert_ne!(nrid.parent(), Some(caller.0));
        caller.signal(Signal::KILL);
        child.wait().unwrap();
        wait_until("the caller to exit", || (!caller.is_alive()).then_some(()));
        assert_eq!(node.nrid(), Some(nrid), "nrid ended with the process that started it");
        assert!(plugin.is_alive(), "the plugin ended with the process that started nrid");
        node.call(&["delete", "--force", &id]).success();
    });
}

#[test]
fn sigterm_ends_nrid_and_launched_plugins_only() {
    for_each_runtime("SIGTERM", |runtime| {
        let node = Node::new(runtime);
        let launched =
            node.launch("10-launched", &Program::Adjust, "[create.resources]\npids = 77\n");
        let id = node.id("c");
        let bundle = node.bundle(&id).arguments(&["/probe", "wait"]).make();
        let original = bundle.bytes();
        let created = node.create(&bundle, &id).success();
        node.call(&["start", &id]).success();
        wait_until("the probe", || created.out().contains("ready=1").then_some(()));
        let mut external = node.connect("20-external", &Program::Adjust, "");
        let status = node.status().unwrap();
        let plugins = status["plugins"].as_array().unwrap();
        assert_eq!(plugins.len(), 2, "{status}");
        let launched_process =
            plugins.iter().find(|p| p["launched"] == true).unwrap()["pid"].as_u64().unwrap();
        let launched_process = Process(u32::try_from(launched_process).unwrap());
        assert!(launched_process.is_alive());
        let nrid = node.nrid().unwrap();
        nrid.signal(Signal::TERM);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
        wait_until("the end of the launched plugin", || {
            (!launched_process.is_alive()).then_some(())
        });
        // The example plugin exits when its connection closes. A killed plugin has no exit code.
        assert!(external.wait_for_exit().code().is_some());
        assert!(!node.state_dir().join("control.sock").exists());
        assert_eq!(node.state(&id).unwrap()["status"], "running");

        // The next create starts the next nrid, which launches the plugin again and synchronizes it
        // with the recorded container.
        let again = node.id("again");
        node.create(&node.bundle(&again).make(), &again).success();
        assert_ne!(node.nrid().unwrap(), nrid);
        wait_until("Synchronize of the launched plugin", || {
            let received = launched.events(&id);
            received.iter().any(|e| e == "Synchronize").then_some(())
        });
        node.call(&["kill", &id, "TERM"]).success();
        launched.wait_for("StopContainer", &id);
        node.call(&["delete", &id]).success();
        launched.wait_for("RemovePodSandbox", &id);
        assert_eq!(bundle.bytes(), original);
    });
}

#[test]
fn nrid_can_be_started_and_stopped_by_hand() {
    for_each_runtime("nrictl", |runtime| {
        let node = Node::new(runtime);
        // Exit code 3 reports that nrid does not run.
        assert_eq!(node.ctl(&["status"]).code, Some(3));
        node.ctl(&["stop"]).success();
        node.ctl(&["start"]).success();
        let nrid = node.nrid().unwrap();
        node.ctl(&["start"]).success();
        assert_eq!(node.nrids(), [nrid]);
        node.ctl(&["stop"]).success();
        // After `stop` the socket and the lock are released, so that the next nrid can start, even
        // if the process of the previous nrid is still exiting.
        assert_eq!(node.ctl(&["status"]).code, Some(3));
        node.ctl(&["start"]).success();
        assert_ne!(node.nrid().unwrap(), nrid);
        wait_until("the first nrid to exit", || (!nrid.is_alive()).then_some(()));
    });
}

/// Returns a shell command that runs a command with more arguments, in the namespaces of the shell.
fn shell(command: &Command, more: &[&str]) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let mut words: Vec<_> =
        words.map(|w| w.to_str().unwrap()).chain(more.iter().copied()).collect();
    if words[0] == "nsenter" {
        words.drain(..=words.iter().position(|word| *word == "--").unwrap());
    }
    words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ")
}

/// A pod that mounts the state directory can connect to the control socket. `nrid` must refuse the
/// requests of the pod, since access to this socket equals root access to the host. An engine in a
/// container has its own `nrid`, in the pid namespace of the engine.
#[test]
fn the_control_socket_is_closed_to_other_pid_namespaces_and_works_inside_one() {
    for_each_runtime("pid namespaces", |runtime| {
        let node = Node::new(runtime);
        let inside = |script: &str| {
            let mut command = Command::new("unshare");
            command.args(["--pid", "--fork", "--mount-proc", "sh", "-ec", script]);
            node.run(command_after("cd /", &command))
        };
        let mut ctl = Command::new(node.program("nrictl"));
        ctl.arg("--config").arg(node.config());
        node.ctl(&["start"]).success();
        let running = node.nrid().unwrap();
        for verb in ["status", "stop", "reload"] {
            let refused = inside(&shell(&ctl, &[verb]));
            let output = refused.out() + &refused.err();
            assert!(output.contains("another pid namespace"), "{verb}: {output}");
        }
        let id = node.id("c");
        let bundle = node.bundle(&id).make();
        let dir = bundle.dir().to_str().unwrap();
        let create = shell(&node.wrapper(), &["create", "--bundle", dir, &id]);
        let refused = inside(&create);
        assert_ne!(refused.code, Some(0));
        assert!(refused.err().contains("another pid namespace"), "{}", refused.err());
        assert_eq!(node.nrid(), Some(running));
        let state = node.state_dir();
        let probe = format!("nc -U {}/plugins/ready.sock </dev/null", state.display());
        if Path::new("/usr/bin/nc").exists() || Path::new("/bin/nc").exists() {
            assert_eq!(inside(&probe).out(), "ready\n");
        }
        node.ctl(&["stop"]).success();
        assert!(!state.join("plugins/ready.sock").exists());

        // The same calls work if all of them are made in one pid namespace.
        let steps = [
            create,
            shell(&ctl, &["status"]),
            shell(&node.wrapper(), &["delete", "--force", &id]),
            shell(&ctl, &["stop"]),
        ];
        let all = inside(&steps.join("\n")).success();
        assert!(all.out().contains("containers"), "{}", all.out());
    });
}
