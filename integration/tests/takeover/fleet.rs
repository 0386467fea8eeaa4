//! Containers in different states, and checks of them before and after a takeover.

use nri_integration::*;
use serde_json::json;
use std::{collections::BTreeSet, fs, path::PathBuf};

/// Adjustment of the plugin: an environment variable, an rlimit and a pids limit. At `exec`, the
/// wrapper adds the variable and the rlimit, which it reads from the state directory.
const ADJUSTMENT: &str = r#"
[create]
env = { set = { TAKEOVER = "yes" } }
[[create.rlimits]]
type = "RLIMIT_CORE"
hard = 4096
soft = 2048
[create.resources]
pids = 77
"#;
/// Memory limit that the engine sets by an update.
pub(crate) const MEMORY: &str = "67108864";

/// A container of a [`Fleet`].
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) bundle: Bundle,
}

/// A node with a plugin and containers.
pub(crate) struct Fleet {
    pub(crate) node: Node,
}

impl Fleet {
    /// Creates a node with the programs of a release.
    pub(crate) fn new(runtime: &Runtime, release: &super::Release) -> Self {
        let node = Node::with_programs(runtime, &release.dir);
        node.configure("engines = { crio = 'ours' }");
        node.launch_in_sessions("10-adjust", &Program::Adjust, ADJUSTMENT);
        // `ulimit -c` prints the limit in blocks of 512 bytes.
        let process = json!({
            "args": ["/bin/sh", "-c", "test \"$TAKEOVER\" = yes && test $(ulimit -S -c) = 4"],
            "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}
        });
        fs::write(node.path("process.json"), process.to_string()).unwrap();
        Self { node }
    }

    /// Creates a bundle. `pod` is the id of the container's pod and the kind of the container,
    /// which become annotations as CRI-O writes them.
    pub(crate) fn bundle(&self, name: &str, pod: Option<(&str, &str)>) -> Member {
        let id = self.node.id(name);
        let bundle = self.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        if let Some((pod, kind)) = pod {
            bundle.annotate_as_crio(pod, kind);
        }
        Member { id, bundle }
    }

    /// Creates a container and does not start it.
    pub(crate) fn create(&self, name: &str) -> Member {
        let member = self.bundle(name, None);
        self.node.create(&member.bundle, &member.id).success();
        member
    }

    /// Creates and starts a container.
    pub(crate) fn run(&self, name: &str, pod: Option<(&str, &str)>) -> Member {
        let member = self.bundle(name, pod);
        self.node.create(&member.bundle, &member.id).success();
        self.node.call(&["start", &member.id]).success();
        member
    }

    /// Calls `exec`, and checks that the wrapper adds the plugin's variable and rlimit to the
    /// process.
    #[track_caller]
    pub(crate) fn check_exec(&self, id: &str) {
        let process = self.node.path("process.json");
        self.node.call(&["exec", "--process", process.to_str().unwrap(), id]).success();
    }

    /// Updates the memory limit, and checks that the plugin's pids limit stays effective.
    #[track_caller]
    pub(crate) fn check_update(&self, id: &str, memory: &str) {
        self.node.call(&["update", "--memory", memory, "--memory-swap", memory, id]).success();
        self.check_limits(id, memory);
    }

    /// Checks the memory limit of the engine and the pids limit of the plugin.
    #[track_caller]
    pub(crate) fn check_limits(&self, id: &str, memory: &str) {
        let pid = self.node.state(id).expect("the runtime knows the container")["pid"].clone();
        let process = ContainerProcess::of(Process(serde_json::from_value(pid).unwrap()));
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), memory, "{id}");
        assert_eq!(process.limit("pids", "pids.max", "pids.max"), "77", "{id}");
        self.node.ctl(&["verify", id]).success();
    }

    /// Kills and deletes a container, and checks its bundle.
    pub(crate) fn remove(&self, member: &Member) {
        self.node.call(&["kill", &member.id, "KILL"]).success();
        wait_until("the container to stop", || {
            (self.node.state(&member.id)?["status"] == "stopped").then_some(())
        });
        self.node.call(&["delete", &member.id]).success();
        self.check_bundle(member);
    }

    /// Checks that nothing is left of a bundle of `nrid`, and no file in the engine's.
    pub(crate) fn check_bundle(&self, member: &Member) {
        wait_until(format_args!("the end of the bundle of {}", member.id), || {
            self.node.own_bundle(&member.id).is_none().then_some(())
        });
        let files = fs::read_dir(member.bundle.dir()).unwrap().count();
        assert_eq!(files, 1, "the bundle of {} has files besides config.json", member.id);
    }

    /// Checks that `nrid` has no container, pod or record any more, and that the plugin received
    /// each event of its current session once and in order.
    pub(crate) fn check_nothing_left(&self) {
        wait_until("nrid to have no container and no pod", || {
            let status = self.node.status()?;
            (status["containers"] == 0 && status["pods"] == 0).then_some(())
        });
        for records in ["containers", "pods", "exec"] {
            wait_until(format_args!("the removal of the records of {records}"), || {
                self.node.records(records).is_empty().then_some(())
            });
        }
        let journal = self.session();
        wait_until("the plugin to receive all removals", || {
            View::of_session(&journal).unfinished().is_empty().then_some(())
        });
        assert_eq!(View::of_session(&journal).out_of_order, [""; 0]);
    }

    /// Waits until the plugin is synchronized with the running `nrid`. Returns the journal of this
    /// session.
    pub(crate) fn session(&self) -> PathBuf {
        let nrid = self.node.nrid().expect("nrid runs").0;
        wait_until("the plugin's session", || {
            let mut sessions = self.node.sessions().into_iter();
            let is_launched_by_nrid = |process: &Process| process.parent() == Some(nrid);
            let (_, journal) = sessions.find(|(process, _)| is_launched_by_nrid(process))?;
            View::of_session(&journal).synchronized.then_some(journal)
        })
    }

    /// Waits until a plugin knows exactly these containers and pods.
    pub(crate) fn check_view(&self, journal: &Journal, containers: &[&Member], pods: &[&Member]) {
        let ids = |members: &[&Member]| -> BTreeSet<String> {
            members.iter().map(|member| member.id.clone()).collect()
        };
        let expected = (ids(containers), ids(pods));
        wait_until(format_args!("the plugin of {:?} to know {expected:?}", journal.path()), || {
            let view = View::of(&journal.entries());
            ((view.containers(), view.pods()) == expected).then_some(())
        });
    }
}
