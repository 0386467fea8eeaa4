//! Containers in different states, and the checks before and after a takeover.

use nri_integration::*;
use serde_json::json;
use std::{collections::BTreeSet, fs, path::PathBuf};

/// Adjustment of the plugin: an environment variable and an rlimit, which `exec` adds from a
/// marker, and a resource.
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
/// Memory limit that an engine sets by an update.
pub(crate) const MEMORY: &str = "67108864";

/// A container of a [`Fleet`].
pub(crate) struct Member {
    pub(crate) id: String,
    pub(crate) bundle: Bundle,
    /// `config.json` as the engine wrote it.
    original: Vec<u8>,
}

/// A node with a plugin and containers.
pub(crate) struct Fleet {
    pub(crate) node: Node,
}

impl Fleet {
    pub(crate) fn new(runtime: &Runtime, programs: &super::Release) -> Self {
        let node = Node::with_programs(runtime, &programs.dir);
        node.configure("engines = { crio = 'ours' }");
        node.launch_in_sessions("10-adjust", &Program::Adjust, ADJUSTMENT);
        let process = json!({
            "args": ["/bin/sh", "-c", "test \"$TAKEOVER\" = yes && test $(ulimit -S -c) = 4"],
            "cwd": "/", "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}
        });
        fs::write(node.path("process.json"), process.to_string()).unwrap();
        Self { node }
    }

    /// Creates a bundle. `pod` is the id of a pod, as of CRI-O, and the kind of this container.
    pub(crate) fn bundle(&self, name: &str, pod: Option<(&str, &str)>) -> Member {
        let id = self.node.id(name);
        let bundle = self.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        if let Some((pod, kind)) = pod {
            bundle.annotate_as_crio(pod, kind);
        }
        Member { original: bundle.bytes(), id, bundle }
    }

    pub(crate) fn created(&self, name: &str) -> Member {
        let member = self.bundle(name, None);
        self.node.create(&member.bundle, &member.id).success();
        member
    }

    pub(crate) fn running(&self, name: &str, pod: Option<(&str, &str)>) -> Member {
        let member = self.bundle(name, pod);
        self.node.create(&member.bundle, &member.id).success();
        self.node.call(&["start", &member.id]).success();
        member
    }

    /// Calls `exec` with a process without the plugin's adjustment, which the marker has to add.
    #[track_caller]
    pub(crate) fn check_exec(&self, id: &str) {
        let process = self.node.path("process.json");
        self.node.call(&["exec", "--process", process.to_str().unwrap(), id]).success();
    }

    /// Updates the memory limit and checks that the plugin's limit stays.
    #[track_caller]
    pub(crate) fn check_update(&self, id: &str, memory: &str) {
        self.node.call(&["update", "--memory", memory, "--memory-swap", memory, id]).success();
        self.check_limits(id, memory);
    }

    #[track_caller]
    pub(crate) fn check_limits(&self, id: &str, memory: &str) {
        let pid = self.node.state(id).expect("the runtime knows the container")["pid"].clone();
        let process = ContainerProcess::of(Process(serde_json::from_value(pid).unwrap()));
        assert_eq!(process.limit("memory", "memory.limit_in_bytes", "memory.max"), memory, "{id}");
        assert_eq!(process.limit("pids", "pids.max", "pids.max"), "77", "{id}");
        self.node.ctl(&["verify", id]).success();
    }

    /// Kills and deletes a container.
    pub(crate) fn end(&self, member: &Member) {
        self.node.call(&["kill", &member.id, "KILL"]).success();
        wait_until("a stopped container", || {
            (self.node.state(&member.id)?["status"] == "stopped").then_some(())
        });
        self.node.call(&["delete", &member.id]).success();
        self.check_restored(member);
    }

    /// Waits until `config.json` is the engine's again, with nothing beside it.
    pub(crate) fn check_restored(&self, member: &Member) {
        wait_until(format_args!("config.json of {}", member.id), || {
            (member.bundle.bytes() == member.original).then_some(())
        });
        let left = fs::read_dir(member.bundle.dir()).unwrap().count();
        assert_eq!(left, 1, "only config.json is left in the bundle of {}", member.id);
    }

    /// Checks that `nrid` knows no container any more and that the plugin's session received each
    /// event once, in order.
    pub(crate) fn check_nothing_left(&self) {
        wait_until("no container and no pod", || {
            let status = self.node.status()?;
            (status["containers"] == 0 && status["pods"] == 0).then_some(())
        });
        for records in ["containers", "pods", "exec"] {
            wait_until(format_args!("no records of {records}"), || {
                self.node.records(records).is_empty().then_some(())
            });
        }
        let journal = self.session();
        wait_until("all events", || {
            View::of_session(&journal).unfinished().is_empty().then_some(())
        });
        assert_eq!(View::of_session(&journal).wrong, [""; 0]);
    }

    /// Journal of the plugin's session with the `nrid` that runs.
    pub(crate) fn session(&self) -> PathBuf {
        let nrid = self.node.nrid().expect("nrid runs").0;
        wait_until("the plugin's session", || {
            let mut sessions = self.node.sessions().into_iter();
            let of_nrid = |process: &Process| process.parent() == Some(nrid);
            let (_, journal) = sessions.find(|(process, _)| of_nrid(process))?;
            View::of_session(&journal).synchronized.then_some(journal)
        })
    }

    /// Waits until a plugin knows exactly these containers and pods.
    pub(crate) fn check_view(&self, journal: &Journal, containers: &[&Member], pods: &[&Member]) {
        let ids = |members: &[&Member]| -> BTreeSet<String> {
            members.iter().map(|member| member.id.clone()).collect()
        };
        let expected = (ids(containers), ids(pods));
        wait_until(format_args!("{expected:?} in {:?}", journal.path()), || {
            let view = View::of(&journal.entries());
            ((view.containers(), view.pods()) == expected).then_some(())
        });
    }
}
