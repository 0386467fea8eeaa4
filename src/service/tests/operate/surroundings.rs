//! Tests of `nrid --background` under a caller that, like an engine, has attributes and namespaces
//! of its own. `nrid` serves all engines, so it must not keep the attributes and namespaces of the
//! engine that started it.

use crate::{
    containers::{perform, try_begin},
    node::{Node, remove_directory, wait_until},
};
use nri_control::{Client, ClientError, Reply, Request, Verb};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

const NRID: &str = env!("CARGO_BIN_EXE_nrid");

/// A running process.
#[derive(Clone, Copy)]
struct Process(i32);

impl Process {
    fn file(self, name: &str) -> String {
        let bytes = fs::read(format!("/proc/{}/{name}", self.0)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).trim().to_owned()
    }

    /// Returns a value in `/proc/PID/status`.
    fn status(self, name: &str) -> String {
        let text = self.file("status");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim().to_owned()
    }

    /// Returns a soft limit in `/proc/PID/limits`.
    fn limit(self, name: &str) -> String {
        let text = self.file("limits");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().next().unwrap_or_default().to_owned()
    }

    /// Returns nice value and scheduling policy in `/proc/PID/stat`.
    fn scheduling(self) -> [String; 2] {
        let text = self.file("stat");
        let fields: Vec<_> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
        // Fields 19 and 41 of the file; `fields` begins with field 3.
        [fields[16].to_owned(), fields[38].to_owned()]
    }

    fn namespace(self, name: &str) -> String {
        let link = fs::read_link(format!("/proc/{}/ns/{name}", self.0)).unwrap();
        link.to_str().unwrap().to_owned()
    }

    fn children(self) -> Vec<Self> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.0)).into_iter().flatten().flatten();
        let files = tasks.map(|task| task.path().join("children"));
        let text: String = files.map(|file| fs::read_to_string(file).unwrap_or_default()).collect();
        text.split_whitespace().map(|pid| Self(pid.parse().unwrap())).collect()
    }
}

/// An `nrid` in the background, killed when it is dropped.
struct Background {
    nrid: Process,
    caller: Child,
}

impl Background {
    /// Runs a command that starts `nrid --background`, and waits for its start.
    fn start(node: &Node, command: Command) -> Self {
        let (caller, mut output) = spawn(command);
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { nrid: Process(nri_host::listener(&node.socket()).unwrap()), caller }
    }

    fn plugin(&self) -> Option<Process> {
        self.nrid.children().into_iter().find(|child| child.file("cmdline").contains("10-a"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = Pid::from_raw(self.nrid.0).map(|nrid| kill_process(nrid, Signal::KILL));
        let _ = self.caller.kill();
        let _ = self.caller.wait();
    }
}

/// Starts a command. Returns its process and its standard output.
fn spawn(mut command: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

/// Adds to `command` a shell that runs `script`, in which `"$@"` is a call of `nrid --background`.
fn in_shell(mut command: Command, node: &Node, script: &str) -> Command {
    command.args(["sh", "-c", script, "sh", NRID, "--background"]);
    command.arg("--config").arg(node.config()).arg("--state-dir").arg(node.state_dir());
    command
}

fn log(node: &Node) -> String {
    fs::read_to_string(node.state_dir().join("nrid.log")).unwrap()
}

/// Whether the test runs as root; if not, prints that the test is skipped.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can set attributes and namespaces of a caller");
    }
    is_root
}

/// A simulated host: its process 1 is in new pid and mount namespaces.
struct Host {
    unshare: Child,
    init: Process,
}

impl Host {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
        command.args(["sh", "-c", "echo ready; exec sleep 1000000"]);
        let (unshare, mut output) = spawn(command);
        output.read_line(&mut String::new()).unwrap();
        let children = Process(unshare.id().cast_signed()).children();
        Self { unshare, init: children[0] }
    }

    /// Returns a command that runs another one in new namespaces, named by options of unshare(1).
    fn unshare(&self, options: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.init.0.to_string(), "--pid", "--mount", "--"]);
        command.arg("unshare").args(options).arg("--");
        command
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

/// Otherwise `nrid` and the wrapper that starts it would read the configuration of different
/// directories.
#[test]
fn variables_that_name_directories_of_the_user_are_kept() {
    let node = Node::new("");
    let mut env = Command::new("env");
    let kept = ["HOME=/h", "XDG_CONFIG_HOME=/c", "XDG_DATA_HOME=/d", "XDG_RUNTIME_DIR=/r"];
    env.args(kept).arg("OF_THE_ENGINE=1");
    let background = Background::start(&node, in_shell(env, &node, "exec \"$@\""));
    let environment = background.nrid.file("environ");
    for entry in kept {
        assert!(environment.split('\0').any(|found| found == entry), "{entry}: {environment}");
    }
    assert!(!environment.contains("OF_THE_ENGINE"), "{environment}");
}

#[test]
fn attributes_of_the_caller_are_reset() {
    if !is_root() {
        return;
    }
    let node = Node::new("");
    node.plugin("10-a");
    let script = "trap '' HUP USR2 && echo 1000000 >/proc/$$/timerslack_ns && \
         ulimit -S -f 100000 && ulimit -S -s 1000 && ulimit -S -n 300 && \
         exec choom -n 500 -- taskset -c 0 chrt --batch 0 nice -n 7 ionice -c 3 setarch -R \"$@\"";
    let background = Background::start(&node, in_shell(Command::new("env"), &node, script));
    let plugin = wait_until("the plugin", || background.plugin());
    let init = Process(1);
    for process in [background.nrid, plugin] {
        assert_eq!(process.file("oom_score_adj"), init.file("oom_score_adj"));
        assert_eq!(process.file("timerslack_ns"), "50000", "expected the kernel's default");
        assert_eq!(process.file("personality"), "00000000");
        assert_eq!(process.status("Cpus_allowed_list"), init.status("Cpus_allowed_list"));
        let ignored = u64::from_str_radix(&process.status("SigIgn"), 16).unwrap();
        let changed = [Signal::HUP, Signal::USR2].map(|signal| 1 << (signal.as_raw() - 1));
        assert_eq!(ignored & (changed[0] | changed[1]), 0, "{ignored:x}");
        for name in ["Max file size", "Max stack size"] {
            assert_eq!(process.limit(name), init.limit(name), "{name}");
        }
        assert_ne!(process.limit("Max open files"), "300");
        assert_eq!(process.scheduling(), ["0", "0"], "nice value and policy");
        let ionice = Command::new("ionice").args(["-p", &process.0.to_string()]).output().unwrap();
        assert_ne!(String::from_utf8(ionice.stdout).unwrap().trim(), "idle");
    }
    let inherited = node.status().inherited;
    assert!(!inherited.iter().any(|i| i.what.contains("cannot be reset")), "{inherited:?}");
}

#[test]
fn restrictions_that_cannot_be_reset_are_reported_also_after_a_restart() {
    if !is_root() {
        return;
    }
    let node = Node::new("");
    let script = "exec prlimit --nofile=400:400 setpriv --no-new-privs \
         --bounding-set -sys_resource,-sys_boot \"$@\"";
    let background = Background::start(&node, in_shell(Command::new("env"), &node, script));
    for _ in 0..2 {
        assert_eq!(background.nrid.status("NoNewPrivs"), "1");
        let found: Vec<_> = node.status().inherited.into_iter().map(|i| i.what).collect();
        for part in ["no_new_privs is set", "SYS_BOOT", "the hard limit of open files is 400"] {
            assert!(found.iter().any(|what| what.contains(part)), "{part}: {found:?}");
            // `SYS_BOOT` is not at the beginning of its description.
            let message = format!("inherited from the process that started nrid: {part}");
            assert!(part == "SYS_BOOT" || log(&node).contains(&message), "{message}");
        }
        let client = Client::connect(&node.socket()).unwrap();
        assert_eq!(client.call(&Request::Restart { program: None }, &[]).unwrap(), Reply::Done);
        assert!(client.wait_closed());
    }
}

#[test]
fn nrid_enters_the_namespaces_of_process_1() {
    if !is_root() {
        return;
    }
    let (host, node) = (Host::new(), Node::new(""));
    node.plugin("10-a");
    let caller = host.unshare(&["--mount", "--net", "--ipc", "--uts", "--cgroup"]);
    let script =
        format!("mount -t tmpfs none '{}' && \"$@\" && sleep 1000000", node.plugins().display());
    let background = Background::start(&node, in_shell(caller, &node, &script));
    for name in ["mnt", "net", "ipc", "uts", "cgroup", "pid"] {
        assert_eq!(background.nrid.namespace(name), host.init.namespace(name), "{name}");
    }
    // An nrid in the caller's mount namespace would not find this plugin, since an empty file
    // system is mounted over its directory there.
    wait_until("the plugin", || background.plugin());
    assert!(!log(&node).contains("inherited"), "{}", log(&node));
}

#[test]
fn nrid_of_a_rootless_or_containerized_engine_stays_in_the_namespaces_of_the_engine() {
    if !is_root() {
        return;
    }
    let node = Node::new("");
    // The caller has another root directory, in which the directories of the host are mounted.
    let other_root = format!(
        "mount -t tmpfs none '{root}' && for file in /*; do if [ -L $file ]; then \
         cp -P $file '{root}'; elif [ -d $file ]; then mkdir '{root}'$file && \
         mount --rbind $file '{root}'$file; fi; done && chroot '{root}' \"$@\" && sleep 1000000",
        root = node.path("conf.d").display()
    );
    for (options, script, reason) in [
        (&["--mount"][..], other_root.as_str(), "another root directory"),
        (&["--mount", "--user", "--map-root-user"], "exec \"$@\"", "process 1 cannot be read"),
    ] {
        let host = Host::new();
        let background = Background::start(&node, in_shell(host.unshare(options), &node, script));
        assert_ne!(background.nrid.namespace("mnt"), host.init.namespace("mnt"), "{reason}");
        let log = log(&node);
        let line = log.lines().rfind(|line| line.contains("is in the namespaces of")).unwrap();
        assert!(line.contains(reason), "{reason}: {line}");
        drop(background);
        remove_directory(&node.state_dir());
    }
}

#[test]
fn a_start_fails_if_proc_belongs_to_another_pid_namespace() {
    if !is_root() {
        return;
    }
    let (host, node) = (Host::new(), Node::new(""));
    // The shell is the init process of the new namespace: its end would end nrid.
    let caller = in_shell(host.unshare(&["--pid", "--fork"]), &node, "\"$@\" && sleep 1000000");
    let (mut caller, mut output) = spawn(caller);
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert!(line.contains("/proc belongs to another pid namespace"), "{line}");
    assert!(!Path::new(&node.socket()).exists());
    drop(host);
    caller.wait().unwrap();
}

#[test]
fn a_start_fails_if_the_state_directory_is_hidden_from_the_host() {
    if !is_root() {
        return;
    }
    let (host, node) = (Host::new(), Node::new(""));
    let state_dir = node.state_dir();
    let script =
        format!("mount -t tmpfs -o mode=700 none '{}' && exec \"$@\"", state_dir.display());
    let command = in_shell(host.unshare(&["--mount"]), &node, &script);
    let (mut caller, output) = spawn(command);
    let lines: Vec<_> = output.lines().map(Result::unwrap).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(
        lines[0].contains("does not lead to the state directory of the engine")
            && lines[0].contains(&*state_dir.to_string_lossy()),
        "{lines:?}"
    );
    caller.wait().unwrap();
    assert!(!Path::new(&node.socket()).exists());
}

/// `nrid` holds environment variables of containers, which other processes of its user, without
/// further privileges, must not read from its memory.
#[test]
fn other_processes_of_the_user_cannot_open_the_memory_of_nrid() {
    if !geteuid().is_root() {
        return println!("SKIPPED memory of nrid: not root");
    }
    // A process with CAP_SYS_PTRACE can open the memory of every process. All programs of this test
    // run without this capability: a process cannot open the memory of a more privileged one.
    let without_ptrace = |program: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace", program]);
        command
    };
    let is_denied = |pid: u32| {
        // Reading fails in any case: nothing is mapped at the address 0.
        let output = without_ptrace("cat").arg(format!("/proc/{pid}/mem")).output().unwrap();
        String::from_utf8(output.stderr).unwrap().contains("Permission denied")
    };
    let mut other = without_ptrace("sleep").arg("60").stdout(Stdio::null()).spawn().unwrap();
    let node = Node::new("");
    let nrid = node.start_command(without_ptrace(NRID));
    wait_until("a process whose memory can be opened", || (!is_denied(other.id())).then_some(()));
    let is_nrid_denied = is_denied(nrid.id());
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(is_nrid_denied);
    node.stop();
    nrid.wait_for_exit();
}

/// conmon does not end before its children, so an `nrid` that it has as a child lets the next call
/// from outside of conmon start the next `nrid`.
#[test]
fn nrid_ends_if_conmon_waits_for_it_and_the_caller_can_start_another() {
    let node = Node::new("");
    let conmon = node.path("conmon");
    std::os::unix::fs::symlink("/bin/sh", &conmon).unwrap();
    // Two commands, so that the shell does not become nrid.
    let mut command = Command::new(conmon);
    command.args(["-c", "\"$@\"; exit $?", "conmon", NRID]);
    let nrid = node.start_command(command);
    perform(&node, Verb::Create, "c", "/bin/false", None).unwrap();
    let (reply, client) = try_begin(&node, Verb::Start, "c", "/bin/false");
    assert!(matches!(reply, Err(ClientError::Frame(_))), "{reply:?}");
    drop(client);
    let output = nrid.wait_for_exit();
    assert!(output.contains("as conmon waits for it"), "{output}");

    // The container is known to the next nrid, which has another parent.
    let nrid = node.start();
    perform(&node, Verb::Start, "c", "/bin/false", None).unwrap();
    perform(&node, Verb::Delete, "c", "/bin/false", None).unwrap();
    node.stop();
    nrid.wait_for_exit();
}
