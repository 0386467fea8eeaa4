//! An installation of the wrapper for one test, its containers, and the calls that an engine makes.

use super::expected::{Outcome, Policy};
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

/// Time limit of a call that may wait for `nrid`: many times the configured timeouts, and less than
/// the time that engines wait.
const LIMIT_WITH_NRID: Duration = Duration::from_secs(40);
/// Time limit of a call that does not wait for `nrid`, on a busy machine.
const LIMIT_WITHOUT_NRID: Duration = Duration::from_secs(20);

/// An installation that can be broken, on a node of its own.
pub(super) struct Installation {
    pub(super) node: Node,
    pub(super) policy: Policy,
    /// Directory of the installed programs.
    pub(super) bin: PathBuf,
    /// A link to the real runtime.
    pub(super) runtime: Runtime,
    has_mounted_state_dir: bool,
    /// Duration and verb of the slowest call.
    slowest: Mutex<(Duration, String)>,
}

/// Containers that were created before the breakage.
pub(super) struct Containers {
    /// Id of a container that was created, but not started.
    created: String,
    /// Id of a container that was created and started.
    started: String,
    /// Id of a container that `run` started, with the injected hooks.
    ran: String,
}

impl Installation {
    pub(super) fn new(runtime: &Runtime, policy: Policy, config: &str, mounted: bool) -> Self {
        let node = Node::new(runtime);
        let bin = node.install();
        let link = node.path("runc");
        symlink(&runtime.path, &link).unwrap();
        let runtime = Runtime { name: runtime.name, path: link };
        let etc = node.path("etc");
        fs::create_dir_all(etc.join("nri-container-runtime")).unwrap();
        fs::write(etc.join("nri-container-runtime/bypass"), "").unwrap();
        // `runc list` prints the name of the owner.
        fs::copy("/etc/passwd", etc.join("passwd")).unwrap();
        let slowest = Mutex::new((Duration::ZERO, String::new()));
        let installation =
            Self { node, policy, bin, runtime, has_mounted_state_dir: mounted, slowest };
        installation.configure(config);
        if mounted {
            fs::create_dir(installation.node.state_dir()).unwrap();
            // Small, so that a test can fill the file system quickly.
            installation.shell("mount -t tmpfs -o size=256k,mode=700 none \"$STATE\"");
        }
        installation
    }

    /// Writes the configuration of the policy, and the lines `more`. A running `nrid` reads it.
    pub(super) fn configure(&self, more: &str) {
        let unreachable = if self.policy == Policy::Pass { "unreachable = 'pass'\n" } else { "" };
        self.node.configure(&format!("{unreachable}{more}"));
        // Without an nrid, or with one that does not reply, there is nothing to reload.
        self.node.ctl(&["reload"]);
    }

    /// Runs a script in the mount namespace of the programs, with the state directory in `$STATE`.
    pub(super) fn shell(&self, script: &str) {
        let state = self.node.state_dir();
        let first = format!("STATE='{}'; {script} || exit 1", state.display());
        self.node.run(command_after(&first, &Command::new("true"))).success();
    }

    /// Returns a command of the installed wrapper.
    pub(super) fn wrapper(&self) -> Command {
        self.node.wrapper_at(&self.bin.join("nri-container-runtime"), &self.runtime)
    }

    /// Returns the command in a mount namespace where the break-glass file exists. The path of the
    /// file is fixed, and other tests that run at the same time must not see it.
    pub(super) fn with_break_glass_file(&self, command: &Command) -> Command {
        let etc = self.node.path("etc");
        let script = format!(
            "exec unshare --mount sh -c 'mount --bind {} /etc && exec \"$@\"' sh \"$@\"",
            etc.display()
        );
        command_after(&script, command)
    }

    /// Calls the wrapper under a policy. Returns the result and the duration.
    fn timed_call(&self, arguments: &[&str], policy: Policy) -> (Ended, Duration) {
        let mut command = self.wrapper();
        command.args(arguments);
        match policy {
            Policy::Default | Policy::Pass => {}
            Policy::Variable => drop(command.env("NRI_CONTAINER_RUNTIME_BYPASS", "1")),
            Policy::File => command = self.with_break_glass_file(&command),
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

    /// Calls the wrapper, which must end within the limit.
    #[track_caller]
    fn call(&self, arguments: &[&str], limit: Duration) -> Ended {
        let (ended, took) = self.timed_call(arguments, self.policy);
        assert!(took < limit, "{arguments:?} ({:?}) took {took:?}", self.policy);
        ended
    }

    /// Calls the wrapper, which must succeed within the limit.
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

    /// Creates a bundle; returns its path.
    fn bundle(&self, id: &str) -> String {
        let bundle = self.node.bundle(id).arguments(&["/bin/sleep", "1000"]).make();
        bundle.dir().to_str().unwrap().to_owned()
    }

    /// Writes a process file for `exec`; returns its path.
    fn process_file(&self) -> String {
        let path = self.node.path("process.json");
        let process = serde_json::json!({
            "args": ["/bin/sleep", "0"], "cwd": "/", "env": ["PATH=/bin"],
            "user": {"uid": 0, "gid": 0},
        });
        fs::write(&path, process.to_string()).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Creates the containers that exist before the breakage.
    pub(super) fn prepare(&self) -> Containers {
        self.node.launch("10-adjust", &Program::Adjust, "[create]\nenv = { set = { A = 'b' } }\n");
        let [created, started, ran] = ["created", "started", "ran"].map(|name| self.node.id(name));
        let call =
            |arguments: &[&str]| drop(self.timed_call(arguments, Policy::Default).0.success());
        for id in [&created, &started] {
            call(&["create", "--bundle", &self.bundle(id), id]);
        }
        call(&["start", &started]);
        call(&["run", "--detach", "--bundle", &self.bundle(&ran), &ran]);
        *self.slowest.lock().unwrap() = (Duration::ZERO, String::new());
        Containers { created, started, ran }
    }

    /// Kills `nrid`, as a crash would.
    pub(super) fn kill_nrid(&self) {
        let Some(nrid) = self.node.nrid() else { return };
        nrid.signal(Signal::KILL);
        wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
    }

    /// Checks `create`, `run` and `start`.
    pub(super) fn check_verbs_with_events(&self, expected: Outcome, containers: &Containers) {
        let [create, run] = ["create", "run"].map(|name| self.node.id(name));
        let [create_in, run_in] = [&create, &run].map(|id| self.bundle(id));
        let calls: [&[&str]; 3] = [
            &["create", "--bundle", &create_in, &create],
            &["run", "--detach", "--bundle", &run_in, &run],
            &["start", &containers.created],
        ];
        for call in calls {
            let id = call[call.len() - 1];
            let ended = self.call(call, LIMIT_WITH_NRID);
            let context = format!("{call:?} ({:?})", self.policy);
            match expected.for_verb(call[0]) {
                Outcome::Refused(words)
                | Outcome::CreationsRefused(words)
                | Outcome::RefusedWithoutRecord(words) => {
                    self.check_line(words, &ended.refusal());
                    let status = self.node.state(id).map(|state| state["status"].clone());
                    assert_eq!(
                        status,
                        (id == containers.created).then(|| "created".into()),
                        "{context}"
                    );
                }
                Outcome::Works | Outcome::Passes => {
                    let err = ended.err();
                    assert_eq!(ended.code, Some(0), "{context}: {err}");
                    let warned = err.contains("continuing without NRI");
                    assert_eq!(
                        warned,
                        expected.for_verb(call[0]) == Outcome::Passes,
                        "{context}: {err}"
                    );
                    let status = if call[0] == "create" { "created" } else { "running" };
                    assert_eq!(self.node.state(id).unwrap()["status"], status, "{context}");
                }
                Outcome::NoRuntime => unreachable!("check_without_runtime checks this outcome"),
            }
        }
        // After a failure, engines call `delete --force`.
        for id in [&create, &run] {
            self.success(&["delete", "--force", id], LIMIT_WITH_NRID);
        }
    }

    /// Checks that the line contains all texts, in which `STATE` and `CONFIG` stand for paths.
    fn check_line(&self, words: &[&str], line: &str) {
        let (state, config) = (self.node.state_dir(), self.node.config());
        for word in words {
            let word = word.replace("STATE", state.to_str().unwrap());
            let word = word.replace("CONFIG", config.to_str().unwrap());
            assert!(line.contains(&word), "{word:?} is not in: {line}");
        }
    }

    /// Checks that verbs without an event behave as with the bare runtime. Checks `update`, too,
    /// which `nrid` refuses only if it cannot write the record.
    pub(super) fn check_verbs_without_events(&self, expected: Outcome, containers: &Containers) {
        let id = containers.started.as_str();
        for call in [&["state", id][..], &["list"], &["features"], &["--version"]] {
            let (bare, wrapped) = (self.node.bare(call), self.call(call, LIMIT_WITHOUT_NRID));
            assert_eq!(wrapped.code, bare.code, "{call:?}: {}", wrapped.err());
            assert_eq!(wrapped.out(), bare.out(), "{call:?}");
            assert!(
                !wrapped.err().contains("nri-container-runtime:"),
                "{call:?}: {}",
                wrapped.err()
            );
        }
        for call in [&["ps", id][..], &["pause", id], &["resume", id]] {
            let wrapped = self.success(call, LIMIT_WITHOUT_NRID);
            assert!(
                !wrapped.err().contains("nri-container-runtime:"),
                "{call:?}: {}",
                wrapped.err()
            );
        }
        // Engines call exec with a process file, to which the wrapper adds the variables and
        // rlimits of plugins if it can read the exec marker.
        self.success(&["exec", "--process", &self.process_file(), id], LIMIT_WITHOUT_NRID);
        let update = ["update", "--pids-limit", "40", id];
        match expected {
            // The record may still fit into a spare file.
            Outcome::RefusedWithoutRecord(words) => {
                let updated = self.call(&update, LIMIT_WITH_NRID);
                if updated.code != Some(0) {
                    return self.check_line(words, &updated.refusal());
                }
            }
            _ => drop(self.success(&update, LIMIT_WITH_NRID)),
        }
        assert_eq!(self.node.cgroup_file(id, "pids", "pids.max", "pids.max"), "40");
    }

    /// Checks that existing containers can be killed and deleted.
    pub(super) fn check_removals(&self, containers: &Containers) {
        let id = containers.started.as_str();
        self.success(&["kill", id, "KILL"], LIMIT_WITHOUT_NRID);
        wait_until("the container to stop", || {
            (self.node.state(id)?["status"] == "stopped").then_some(())
        });
        self.success(&["delete", id], LIMIT_WITH_NRID);
        self.success(&["delete", "--force", &containers.created], LIMIT_WITH_NRID);
        let ran = ["delete", "--force", &containers.ran];
        wait_until("a delete", || {
            let ended = self.call(&ran, LIMIT_WITH_NRID);
            let hook = self.bin.join("nri-oci-hook");
            if self.runtime.name == "crun"
                && (!hook.exists() || self.node.own_bundle(&containers.ran).is_none())
                && ended.signal == Some(Signal::PIPE.as_raw())
            {
                limitation(
                    "broken",
                    "crun may die by SIGPIPE when a hook or the bundle is missing; engines delete \
                     again",
                );
                return None;
            }
            assert_eq!(ended.code, Some(0), "{ran:?} ({:?}): {}", self.policy, ended.err());
            Some(())
        });
        for id in [&containers.created, &containers.started, &containers.ran] {
            assert!(self.node.state(id).is_none(), "{id} still exists after delete");
        }
    }

    /// Checks that each verb is refused in a line that names the path of the missing runtime.
    pub(super) fn check_without_runtime(&self, containers: &Containers) {
        let id = containers.started.as_str();
        let new = self.node.id("new");
        let bundle = self.bundle(&new);
        for call in [
            &["create", "--bundle", &bundle, &new][..],
            &["run", "--bundle", &bundle, &new],
            &["start", &containers.created],
            &["update", "--pids-limit", "40", id],
            &["exec", id, "/bin/sleep", "0"],
            &["state", id],
            &["kill", id, "KILL"],
            &["delete", id],
            &["delete", "--force", id],
            &["features"],
            &["--version"],
        ] {
            let line = self.call(call, LIMIT_WITHOUT_NRID).refusal();
            let path = self.runtime.path.to_str().unwrap();
            assert!(line.contains(path) && line.contains("not found"), "{call:?}: {line}");
        }
    }

    /// Checks that plugins are called again after the repair, and that `nrid` removes the records
    /// of deleted containers.
    pub(super) fn check_repaired(&self, containers: &Containers) {
        let id = self.node.id("repaired");
        let create = ["create", "--bundle", &self.bundle(&id), &id];
        self.timed_call(&create, Policy::Default).0.success();
        self.shell(&format!("grep -q '\"A=b\"' \"$STATE/bundles/{id}-\"*/config.json"));
        for id in [&id, &containers.created, &containers.started, &containers.ran] {
            self.timed_call(&["delete", "--force", id], Policy::Default).0.success();
        }
        wait_until("the records to be removed", || {
            (self.node.status()?["containers"] == 0).then_some(())
        });
    }

    /// Describes the slowest call during the breakage in one line.
    pub(super) fn slowest_call(&self, name: &str) -> String {
        let (took, verb) = &*self.slowest.lock().unwrap();
        format!("broken: {name}, {}, {:?}: {verb} took {took:?}", self.runtime.name, self.policy)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        // A test that failed may have left nrid stopped by SIGSTOP.
        for nrid in self.node.nrids() {
            let pid = i32::try_from(nrid.0).ok().and_then(Pid::from_raw);
            // The process may have exited since it was listed.
            let _ = pid.map(|pid| kill_process(pid, Signal::CONT));
        }
        if self.has_mounted_state_dir {
            self.node.clean_up();
            let first = format!("umount -l '{}' || :", self.node.state_dir().display());
            self.node.run(command_after(&first, &Command::new("true")));
        }
    }
}
