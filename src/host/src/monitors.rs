//! Running containers of engines, found by the processes that monitor them: the shims of
//! containerd, which Docker uses as well, and conmon, which Podman and CRI-O use.
//!
//! No engine is called. Which containers a shim has, and with which runtime, is in the state
//! directory of containerd (`<state>/io.containerd.runtime.v2.task/<namespace>/<id>`); conmon has
//! all of it in its command line. BuildKit and conmon-rs have no such processes: their containers
//! are not found. Sources: containerd, `cmd/containerd-shim-runc-v2/runc/container.go`,
//! `core/runtime/v2/bundle.go`; podman, `libpod/oci_conmon_common.go`.

use crate::{
    command_line::{in_root, option_values, root_of},
    process,
};
use nri_trust::read_regular_text;
use procfs::process::Process;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Name of a process of a shim: the kernel keeps 15 bytes of `containerd-shim-runc-v2`.
const SHIM: &str = "containerd-shim";
const CONMON: &str = "conmon";
/// The shim of runtimes with runc's command line.
const RUNC_SHIM: &str = "containerd-shim-runc-v2";
/// Runtime of [`RUNC_SHIM`], unless its options name another one.
const RUNC: &str = "runc";
/// Maximum size in bytes of a file with the id of a process, or with a path.
const MAX_FILE: u64 = 4096;

/// A running container.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonitoredContainer {
    /// Id at the engine.
    pub id: String,
    /// Name at the engine, if the command line of the monitor has it.
    pub name: Option<String>,
    /// First process. `None` if no process of this host is it, as in a virtual machine.
    pub pid: Option<i32>,
    /// Program that the engine calls as the runtime: a path, or a name in its search path.
    pub runtime: PathBuf,
    /// Process that monitors the container.
    pub monitor: i32,
    /// Bundle, in the root directory of the monitor.
    pub bundle: PathBuf,
}

impl MonitoredContainer {
    /// Returns the path, for this process, of a file that the monitor sees at `path`.
    pub fn real(&self, path: &Path) -> PathBuf {
        in_root(&root_of(self.monitor), path)
    }

    /// Whether the container still runs.
    pub fn is_running(&self) -> bool {
        match self.pid {
            Some(pid) => parent(pid) == Some(self.monitor),
            None => parent(self.monitor).is_some(),
        }
    }
}

/// The monitors whose containers have their bundles in one directory.
#[derive(Debug)]
pub struct MonitorGroup {
    directory: PathBuf,
    /// Inode of the mount namespace.
    mounts: u64,
    monitors: Vec<Monitor>,
}

#[derive(Debug)]
struct Monitor {
    pid: i32,
    bundle: PathBuf,
    kind: MonitorKind,
}

#[derive(Debug)]
enum MonitorKind {
    Shim { program: PathBuf },
    Conmon { id: String, name: Option<String>, runtime: PathBuf, pid_file: PathBuf },
}

/// Returns the monitors of the containers of root or, for another user, of this user's containers.
/// Reads `/proc` only.
pub fn monitor_groups() -> Vec<MonitorGroup> {
    let mut groups = BTreeMap::<_, Vec<Monitor>>::new();
    for (pid, name) in process::named(&[SHIM, CONMON]) {
        let found = if name == SHIM { Monitor::shim(pid) } else { Monitor::conmon(pid) };
        let Some(monitor) = found.filter(|_| is_of_this_user(pid)) else { continue };
        let Ok(mounts) = fs::metadata(format!("/proc/{pid}/ns/mnt")) else { continue };
        let mounts = mounts.ino();
        groups.entry((monitor.directory(), mounts)).or_default().push(monitor);
    }
    let group = |((directory, mounts), monitors)| MonitorGroup { directory, mounts, monitors };
    groups.into_iter().map(group).collect()
}

/// Whether a process has our user. Those of root are processes of the host for every user.
fn is_of_this_user(pid: i32) -> bool {
    let status = Process::new(pid).and_then(|process| process.status());
    status.is_ok_and(|status| status.euid == geteuid().as_raw())
}

impl MonitorGroup {
    /// Returns the directory of the bundles, as the monitors see it.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns a text that identifies the group in another process, whichever monitors end and
    /// start meanwhile.
    pub fn id(&self) -> String {
        format!("{}:{}", self.mounts, self.directory.display())
    }

    /// Returns the containers that run. Blocks while the file system of the directory hangs.
    pub fn containers(&self) -> Vec<MonitoredContainer> {
        let mut found: Vec<_> = self.monitors.iter().filter_map(Monitor::container).collect();
        let mut seen: BTreeSet<_> = found.iter().map(|container| container.id.clone()).collect();
        // One shim serves all containers of a pod.
        found.extend(self.of_shims().into_iter().filter(|other| seen.insert(other.id.clone())));
        found
    }

    /// Returns the containers of this directory whose parent processes are shims.
    fn of_shims(&self) -> Vec<MonitoredContainer> {
        let shims = self.monitors.iter().filter_map(|monitor| match &monitor.kind {
            MonitorKind::Shim { program } => Some((monitor.pid, program)),
            MonitorKind::Conmon { .. } => None,
        });
        let shims: BTreeMap<i32, &PathBuf> = shims.collect();
        let roots = shims.keys().map(|pid| in_root(&root_of(*pid), &self.directory));
        // A shim may end meanwhile.
        let Some(entries) = roots.into_iter().find_map(|dir| fs::read_dir(dir).ok()) else {
            return Vec::new();
        };
        let container = |entry: fs::DirEntry| {
            let pid = read_pid(&entry.path().join("init.pid"))?;
            let monitor = parent(pid).filter(|parent| shims.contains_key(parent))?;
            let runtime = read(&entry.path().join("runtime"));
            Some(MonitoredContainer {
                id: entry.file_name().into_string().ok()?,
                name: None,
                pid: Some(pid),
                runtime: runtime.map_or_else(|| default_runtime(shims[&monitor]), PathBuf::from),
                monitor,
                bundle: self.directory.join(entry.file_name()),
            })
        };
        entries.flatten().filter_map(container).collect()
    }
}

impl Monitor {
    /// Returns the shim with this process id, whose working directory is its first bundle.
    fn shim(pid: i32) -> Option<Self> {
        let program = PathBuf::from(arguments(pid)?.first()?);
        let bundle = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
        Some(Self { pid, bundle, kind: MonitorKind::Shim { program } })
    }

    /// Returns the conmon with this process id; `None` if it monitors an `exec`.
    fn conmon(pid: i32) -> Option<Self> {
        let arguments = arguments(pid)?;
        // What follows is the command that conmon calls in the end.
        let own = arguments.iter().position(|argument| argument.starts_with("--exit-command"));
        let own = &arguments[..own.unwrap_or(arguments.len())];
        if own.iter().any(|argument| argument == "-e" || argument == "--exec") {
            return None;
        }
        let value = |names: &[&str]| option_values(own, names).first().map(|v| (*v).to_owned());
        let path = |names: &[&str]| value(names).map(PathBuf::from);
        let kind = MonitorKind::Conmon {
            id: value(&["c", "cid"])?,
            name: value(&["n", "name"]),
            runtime: path(&["r", "runtime"])?,
            pid_file: path(&["p", "container-pidfile"])?,
        };
        Some(Self { pid, bundle: path(&["b", "bundle"])?, kind })
    }

    fn directory(&self) -> PathBuf {
        let depth = match &self.kind {
            MonitorKind::Shim { .. } => 1,
            // `<root>/overlay-containers/<id>/userdata`
            MonitorKind::Conmon { .. } => 2,
        };
        self.bundle.ancestors().nth(depth).unwrap_or(&self.bundle).to_owned()
    }

    /// Returns the container, if the command line of the monitor is sufficient for that.
    fn container(&self) -> Option<MonitoredContainer> {
        let (id, name, runtime, pid) = match &self.kind {
            MonitorKind::Conmon { id, name, runtime, pid_file } => {
                let pid = read_pid(&in_root(&root_of(self.pid), pid_file))?;
                (id.clone(), name.clone(), runtime.clone(), Some(pid))
            }
            // The containers of other shims need not have a process here.
            MonitorKind::Shim { program } if !program.ends_with(RUNC_SHIM) => {
                let id = self.bundle.file_name()?.to_str()?.to_owned();
                (id, None, default_runtime(program), None)
            }
            MonitorKind::Shim { .. } => return None,
        };
        let (monitor, bundle) = (self.pid, self.bundle.clone());
        let found = MonitoredContainer { id, name, pid, runtime, monitor, bundle };
        found.is_running().then_some(found)
    }
}

/// Returns the runtime of a shim without an option that names it.
fn default_runtime(shim: &Path) -> PathBuf {
    if shim.ends_with(RUNC_SHIM) { RUNC.into() } else { shim.to_owned() }
}

fn arguments(pid: i32) -> Option<Vec<String>> {
    Process::new(pid).and_then(|process| process.cmdline()).ok()
}

/// Returns the parent of a process that has not ended.
fn parent(pid: i32) -> Option<i32> {
    let stat = Process::new(pid).and_then(|process| process.stat()).ok()?;
    (!matches!(stat.state, 'Z' | 'X')).then_some(stat.ppid)
}

/// Returns the content of a small file, unless it is empty.
fn read(path: &Path) -> Option<String> {
    let text = read_regular_text(path, MAX_FILE).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn read_pid(path: &Path) -> Option<i32> {
    read(path)?.parse().ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead, BufReader, Write},
        process::{Child, Command, Stdio},
    };

    /// A process that runs a script in a copy of the shell, and is killed when it is dropped.
    struct Fake(Child);

    impl Fake {
        /// Starts the program `program` of `dir` in a working directory, and waits until its script
        /// has printed a line.
        fn start(dir: &Path, program: &str, work: &Path, script: &str, arguments: &[&str]) -> Self {
            let program = dir.join(program);
            // A copy of another process, or else executing it may fail (ETXTBSY).
            let copied = Command::new("cp").arg("/bin/sh").arg(&program).status().unwrap();
            assert!(copied.success());
            // Not by the option -c, which conmon has as well.
            let file = dir.join("script");
            fs::write(&file, script).unwrap();
            let mut command = Command::new(&program);
            command.arg(&file).args(arguments).current_dir(work);
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut output = BufReader::new(child.stdout.take().unwrap());
            output.read_line(&mut String::new()).unwrap();
            Self(child)
        }

        fn pid(&self) -> i32 {
            self.0.id().cast_signed()
        }
    }

    impl Drop for Fake {
        fn drop(&mut self) {
            // The end of its input ends the script, which ends its child.
            let _ = self.0.stdin.take().map(|mut input| input.write_all(b"\n"));
            let _ = self.0.wait();
        }
    }

    /// Writes the pid of a child to a file, and waits.
    fn monitor(pid_file: &Path) -> String {
        let file = pid_file.display();
        format!("sleep 60 & echo $! >'{file}'; echo ready; read line; kill $!")
    }

    /// Returns the containers of these monitors, sorted by their ids.
    fn found(monitors: &[&Fake]) -> Vec<MonitoredContainer> {
        let pids: Vec<i32> = monitors.iter().map(|fake| fake.pid()).collect();
        let all = monitor_groups();
        let all = all.iter().flat_map(MonitorGroup::containers);
        let mut own: Vec<_> = all.filter(|found| pids.contains(&found.monitor)).collect();
        own.sort_by(|a, b| a.id.cmp(&b.id));
        own
    }

    fn facts(container: &MonitoredContainer) -> (&str, Option<&str>, &str) {
        let runtime = container.runtime.to_str().unwrap();
        (&container.id, container.name.as_deref(), runtime)
    }

    #[test]
    fn a_shim_has_the_containers_of_its_pod_with_their_runtimes() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let task = dir.join("io.containerd.runtime.v2.task/k8s.io");
        for id in ["pod", "member", "ended", "starting"] {
            fs::create_dir_all(task.join(id)).unwrap();
        }
        let script = format!(
            "sleep 60 & echo $! >'{0}/pod/init.pid'; first=$!; \
             sleep 60 & echo $! >'{0}/member/init.pid'; echo ready; read line; kill $first $!",
            task.display()
        );
        fs::write(task.join("pod/runtime"), "/usr/bin/nri-container-runtime").unwrap();
        // A process of another parent: that of this test.
        fs::write(task.join("ended/init.pid"), std::process::id().to_string()).unwrap();
        let shim = Fake::start(&dir, RUNC_SHIM, &task.join("pod"), &script, &[]);
        let containers = found(&[&shim]);
        let expected = [("member", None, "runc"), ("pod", None, "/usr/bin/nri-container-runtime")];
        assert_eq!(containers.iter().map(facts).collect::<Vec<_>>(), expected);
        let pid = read_pid(&task.join("member/init.pid"));
        assert_eq!(containers[0].pid, pid);
        assert_eq!(containers[0].bundle, task.join("member"));
        assert!(containers[0].real(&task.join("member/init.pid")).exists());
        assert!(containers[0].is_running());
        drop(shim);
        assert!(!containers[0].is_running());
    }

    #[test]
    fn the_container_of_another_shim_is_that_of_its_working_directory() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let bundle = dir.join("io.containerd.runtime.v2.task/default/vm");
        fs::create_dir_all(&bundle).unwrap();
        let script = "echo ready; read line";
        let shim = Fake::start(&dir, "containerd-shim-kata-v2", &bundle, script, &[]);
        let containers = found(&[&shim]);
        let program = dir.join("containerd-shim-kata-v2");
        assert_eq!(facts(&containers[0]), ("vm", None, program.to_str().unwrap()));
        assert_eq!((containers.len(), containers[0].pid), (1, None));
    }

    #[test]
    fn a_group_outlives_its_monitors() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let start = |id: &str| {
            let bundle = dir.join("overlay-containers").join(id).join("userdata");
            fs::create_dir_all(&bundle).unwrap();
            let (pid_file, program) = (bundle.join("pidfile"), dir.join(id));
            fs::create_dir_all(&program).unwrap();
            let (bundle, file) = (bundle.to_str().unwrap(), pid_file.to_str().unwrap());
            let options = ["-c", id, "-r", "/usr/bin/crun", "-b", bundle, "-p", file];
            Fake::start(&program, CONMON, Path::new("/"), &monitor(&pid_file), &options)
        };
        let group = || {
            let is_ours = |group: &MonitorGroup| group.directory().starts_with(&dir);
            monitor_groups().into_iter().find(is_ours).unwrap()
        };
        let (first, second) = (start("c1"), start("c2"));
        let both = group();
        assert_eq!(both.containers().len(), 2);
        drop(first);
        assert_eq!(group().id(), both.id());
        assert_eq!(group().containers().len(), 1);
        drop(second);
    }

    #[test]
    fn conmon_has_the_facts_in_its_command_line() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let bundle = dir.join("overlay-containers/c1/userdata");
        fs::create_dir_all(&bundle).unwrap();
        let pid_file = bundle.join("pidfile");
        let (bundle, file) = (bundle.to_str().unwrap(), pid_file.to_str().unwrap());
        let own = ["-c", "c1", "-u", "c1", "-r", "/usr/bin/crun", "-b", bundle, "-p", file];
        let end = ["--exit-command", "podman", "--exit-command-arg", "--runtime"];
        let options = |more: &[&'static str]| [&own[..], more, &end].concat();
        let conmon =
            |more| Fake::start(&dir, CONMON, Path::new("/"), &monitor(&pid_file), &options(more));
        let container = conmon(&["-n", "web"]);
        let containers = found(&[&container]);
        assert_eq!(
            containers.iter().map(facts).collect::<Vec<_>>(),
            [("c1", Some("web"), "/usr/bin/crun")]
        );
        assert_eq!(containers[0].pid, read_pid(&pid_file));
        drop(container);
        let exec = conmon(&["-e", "--exec-process-spec", "/x"]);
        assert_eq!(found(&[&exec]), []);
    }
}
