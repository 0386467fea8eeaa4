//! An installation of its own, the containers in it, and the calls that an engine makes.

use super::expected::{Needing, Policy};
use nri_integration::*;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::fs::symlink,
    path::PathBuf,
    process::Command,
    sync::Mutex,
    time::{Duration, Instant},
};

/// How long nothing takes, whatever is broken: many times what it is set to be, and still less than
/// an engine waits.
const LONGEST: Duration = Duration::from_secs(40);
/// The same for what does not wait for `nrid` at all.
const AT_ONCE: Duration = Duration::from_secs(20);

pub(super) struct Installation {
    pub(super) node: Node,
    pub(super) policy: Policy,
    /// Our programs.
    pub(super) bin: PathBuf,
    /// A link to the real runtime.
    pub(super) runtime: Runtime,
    state_dir_is_mounted: bool,
    slowest: Mutex<(Duration, String)>,
}

/// Containers that were there before: created, running, and running with our hooks.
pub(super) struct Containers {
    made: String,
    started: String,
    ran: String,
}

impl Installation {
    pub(super) fn new(runtime: &Runtime, policy: Policy, config: &str, mounts: bool) -> Self {
        let node = Node::new(runtime);
        let bin = node.install();
        let link = node.path("runc");
        symlink(&runtime.path, &link).unwrap();
        let runtime = Runtime { name: runtime.name, path: link };
        let etc = node.path("etc");
        fs::create_dir_all(etc.join("nri-container-runtime")).unwrap();
        fs::write(etc.join("nri-container-runtime/bypass"), "").unwrap();
        // runc's `list` names the owner.
        fs::copy("/etc/passwd", etc.join("passwd")).unwrap();
        let slowest = Mutex::new((Duration::ZERO, String::new()));
        let installation =
            Self { node, policy, bin, runtime, state_dir_is_mounted: mounts, slowest };
        installation.configure(config);
        if mounts {
            fs::create_dir(installation.node.state_dir()).unwrap();
            installation.shell("mount -t tmpfs -o size=256k,mode=700 none \"$STATE\"");
        }
        installation
    }

    /// Writes the configuration.
    pub(super) fn configure(&self, more: &str) {
        let unreachable = if self.policy == Policy::Pass { "unreachable = 'pass'\n" } else { "" };
        self.node.configure(&format!("{unreachable}{more}"));
    }

    /// Runs a script where programs run, with the state directory in `$STATE`.
    pub(super) fn shell(&self, script: &str) {
        let state = self.node.state_dir();
        let first = format!("STATE='{}'; {script} || exit 1", state.display());
        self.node.run(after(&first, &Command::new("true"))).success();
    }

    pub(super) fn wrapper(&self) -> Command {
        self.node.wrapper_at(&self.bin.join("nri-container-runtime"), &self.runtime)
    }

    /// The call where the file of break-glass is. Its place is fixed, and other tests run beside
    /// this one: a mount namespace for each call.
    pub(super) fn with_the_file(&self, command: &Command) -> Command {
        let etc = self.node.path("etc");
        let script = format!(
            "exec unshare --mount sh -c 'mount --bind {} /etc && exec \"$@\"' sh \"$@\"",
            etc.display()
        );
        after(&script, command)
    }

    /// A call as the policy has it, and how long it took.
    fn timed(&self, arguments: &[&str], policy: Policy) -> (Ended, Duration) {
        let mut command = self.wrapper();
        command.args(arguments);
        match policy {
            Policy::Default | Policy::Pass => {}
            Policy::Variable => drop(command.env("NRI_CONTAINER_RUNTIME_BYPASS", "1")),
            Policy::File => command = self.with_the_file(&command),
        }
        let begin = Instant::now();
        let ended = self.node.run(command);
        let took = begin.elapsed();
        let mut slowest = self.slowest.lock().unwrap();
        if took > slowest.0 {
            *slowest = (took, arguments[0].to_owned());
        }
        (ended, took)
    }

    #[track_caller]
    fn call(&self, arguments: &[&str], limit: Duration) -> Ended {
        let (ended, took) = self.timed(arguments, self.policy);
        assert!(took < limit, "{arguments:?} ({:?}) took {took:?}", self.policy);
        ended
    }

    #[track_caller]
    fn success(&self, arguments: &[&str], limit: Duration) -> Ended {
        let ended = self.call(arguments, limit);
        assert_eq!(
            (ended.code, ended.signal),
            (Some(0), None),
            "{arguments:?} ({:?}): {}",
            self.policy,
            ended.err()
        );
        ended
    }

    fn bundle(&self, id: &str) -> String {
        let bundle = self.node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.dir().to_str().unwrap().to_owned()
    }

    fn process(&self) -> String {
        let path = self.node.path("process.json");
        let process = serde_json::json!({
            "args": ["/bin/sleep", "0"], "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0},
        });
        fs::write(&path, process.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Makes the containers that exist before something breaks.
    pub(super) fn prepare(&self) -> Containers {
        self.node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let [made, started, ran] = ["made", "started", "ran"].map(|name| self.node.id(name));
        let call = |arguments: &[&str]| drop(self.timed(arguments, Policy::Default).0.success());
        for id in [&made, &started] {
            call(&["create", "--bundle", &self.bundle(id), id]);
        }
        call(&["start", &started]);
        call(&["run", "--detach", "--bundle", &self.bundle(&ran), &ran]);
        *self.slowest.lock().unwrap() = (Duration::ZERO, String::new());
        Containers { made, started, ran }
    }

    /// Ends `nrid`, as by a crash.
    pub(super) fn kill_nrid(&self) {
        let Some(nrid) = self.node.nrid() else { return };
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
    }

    /// Checks the verbs that need `nrid`.
    pub(super) fn check_needing(&self, expected: Needing, containers: &Containers) {
        let [create, run] = ["create", "run"].map(|name| self.node.id(name));
        let [create_in, run_in] = [&create, &run].map(|id| self.bundle(id));
        let calls: [&[&str]; 3] = [
            &["create", "--bundle", &create_in, &create],
            &["run", "--detach", "--bundle", &run_in, &run],
            &["start", &containers.made],
        ];
        for call in calls {
            let id = call[call.len() - 1];
            let ended = self.call(call, LONGEST);
            let context = format!("{call:?} ({:?})", self.policy);
            match expected.of(call[0]) {
                Needing::Refused(words)
                | Needing::Always(words)
                | Needing::Creations(words)
                | Needing::Kept(words) => {
                    self.check_line(words, &ended.refusal());
                    let status = self.node.state(id).map(|state| state["status"].clone());
                    assert_eq!(
                        status,
                        (id == containers.made).then(|| "created".into()),
                        "{context}"
                    );
                }
                Needing::Works | Needing::Passes => {
                    let err = ended.err();
                    assert_eq!(ended.code, Some(0), "{context}: {err}");
                    let warned = err.contains("continuing without NRI");
                    assert_eq!(warned, expected.of(call[0]) == Needing::Passes, "{context}: {err}");
                    let status = if call[0] == "create" { "created" } else { "running" };
                    assert_eq!(self.node.state(id).unwrap()["status"], status, "{context}");
                }
                Needing::NoRuntime => unreachable!("it is checked elsewhere"),
            }
        }
        // As engines do after any failure.
        for id in [&create, &run] {
            self.success(&["delete", "--force", id], LONGEST);
        }
    }

    /// `STATE` and `CONFIG` in the words stand for paths.
    fn check_line(&self, words: &[&str], line: &str) {
        let (state, config) = (self.node.state_dir(), self.node.config());
        for word in words {
            let word = word.replace("STATE", state.to_str().unwrap());
            let word = word.replace("CONFIG", config.to_str().unwrap());
            assert!(line.contains(&word), "{word:?} in {line}");
        }
    }

    /// Checks that verbs without an event behave as with the bare runtime, and updates pass.
    pub(super) fn check_others(&self, expected: Needing, containers: &Containers) {
        let id = containers.started.as_str();
        for call in [&["state", id][..], &["list"], &["features"], &["--version"]] {
            let (bare, ours) = (self.node.bare(call), self.call(call, AT_ONCE));
            assert_eq!(ours.code, bare.code, "{call:?}: {}", ours.err());
            assert_eq!(ours.out(), bare.out(), "{call:?}");
            assert!(!ours.err().contains("nri-container-runtime:"), "{call:?}: {}", ours.err());
        }
        for call in
            [&["exec", id, "/bin/sleep", "0"][..], &["ps", id], &["pause", id], &["resume", id]]
        {
            let ours = self.success(call, AT_ONCE);
            assert!(!ours.err().contains("nri-container-runtime:"), "{call:?}: {}", ours.err());
        }
        // As engines do it: what plugins gave the container is laid into config.json, where that
        // can be read.
        self.success(&["exec", "--process", &self.process(), id], AT_ONCE);
        let update = ["update", "--pids-limit", "40", id];
        match expected {
            Needing::Kept(words) => self.check_line(words, &self.call(&update, LONGEST).refusal()),
            _ => {
                self.success(&update, LONGEST);
                assert_eq!(self.node.cgroup_file(id, "pids", "pids.max", "pids.max"), "40");
            }
        }
    }

    /// Checks that existing containers can be ended and removed.
    pub(super) fn check_removals(&self, containers: &Containers) {
        let id = containers.started.as_str();
        self.success(&["kill", id, "KILL"], AT_ONCE);
        wait_until("its end", || (self.node.state(id)?["status"] == "stopped").then_some(()));
        self.success(&["delete", id], LONGEST);
        self.success(&["delete", "--force", &containers.made], LONGEST);
        let ran = ["delete", "--force", &containers.ran];
        wait_until("a delete", || {
            let ended = self.call(&ran, LONGEST);
            let hook = self.bin.join("nri-oci-hook");
            if self.runtime.name == "crun"
                && !hook.exists()
                && ended.signal == Some(Signal::PIPE.as_raw())
            {
                limitation(
                    "broken",
                    "crun may die when it writes to a hook that is gone; engines delete again",
                );
                return None;
            }
            assert_eq!(ended.code, Some(0), "{ran:?} ({:?}): {}", self.policy, ended.err());
            Some(())
        });
        for id in [&containers.made, &containers.started, &containers.ran] {
            assert!(self.node.state(id).is_none(), "{id}");
        }
    }

    /// Without a real runtime all that can be done is to say so, before anything else is done.
    pub(super) fn check_without_runtime(&self, containers: &Containers) {
        let id = containers.started.as_str();
        let new = self.node.id("new");
        let bundle = self.bundle(&new);
        for call in [
            &["create", "--bundle", &bundle, &new][..],
            &["run", "--bundle", &bundle, &new],
            &["start", &containers.made],
            &["update", "--pids-limit", "40", id],
            &["exec", id, "/bin/sleep", "0"],
            &["state", id],
            &["kill", id, "KILL"],
            &["delete", id],
            &["delete", "--force", id],
            &["features"],
            &["--version"],
        ] {
            let line = self.call(call, AT_ONCE).refusal();
            let path = self.runtime.path.to_str().unwrap();
            assert!(line.contains(path) && line.contains("not found"), "{call:?}: {line}");
        }
    }

    /// Checks that plugins are called again after the repair, and removed containers are forgotten.
    pub(super) fn check_mended(&self, containers: &Containers) {
        let id = self.node.id("mended");
        let create = ["create", "--bundle", &self.bundle(&id), &id];
        self.timed(&create, Policy::Default).0.success();
        let config =
            fs::read_to_string(self.node.path("bundles").join(&id).join("config.json")).unwrap();
        assert!(config.contains("\"A=b\""), "plugins were not asked: {config}");
        for id in [&id, &containers.made, &containers.started, &containers.ran] {
            self.timed(&["delete", "--force", id], Policy::Default).0.success();
        }
        wait_until("nothing known", || (self.node.status()?["containers"] == 0).then_some(()));
    }

    /// The call that took longest while it was broken.
    pub(super) fn slowest(&self, name: &str) -> String {
        let (took, verb) = &*self.slowest.lock().unwrap();
        format!("broken: {name}, {}, {:?}: {verb} took {took:?}", self.runtime.name, self.policy)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        for nrid in self.node.nrids() {
            let pid = i32::try_from(nrid.0).ok().and_then(Pid::from_raw);
            // It may be a copy that is gone again.
            let _ = pid.map(|pid| kill_process(pid, Signal::CONT));
        }
        if self.state_dir_is_mounted {
            self.node.clean_up();
            let first = format!("umount -l '{}' || :", self.node.state_dir().display());
            self.node.run(after(&first, &Command::new("true")));
        }
    }
}
