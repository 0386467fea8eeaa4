//! Host of the life cycles: a node with two launched plugins and a running container, the neighbor;
//! and the check that host, records and plugins agree.

use crate::step::Step;
use nri_integration::{Bundle, Node, Program, Runtime, TIMEOUT, View};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Pids limit that the engine's update sets.
pub(crate) const PIDS: &str = "77";
/// Pids limits of the neighbor before and after the update by a plugin.
pub(crate) const NEIGHBOR_BEFORE: &str = "999";
pub(crate) const NEIGHBOR_AFTER: &str = "555";
/// Memory limits of the neighbor before and after a creation, with which a plugin updates it.
pub(crate) const MEMORY_BEFORE: &str = "536870912";
pub(crate) const MEMORY_AFTER: &str = "268435456";

/// Configuration with short waits before a plugin is launched again.
const CONFIG: &str = "plugin_restart_backoff = '100ms'\nplugin_restart_backoff_limit = '1s'\n";
/// Configuration of the plugin that adjusts containers.
const ADJUST: &str =
    "[create]\nenv = { set = { CRASH = 'yes' } }\n[create.resources]\nshares = 300\n";
/// Events that the Go plugin subscribes to.
const EVENTS: [&str; 11] = View::EVENTS;

/// A node with the neighbor, and the history of the current life cycle.
pub(crate) struct Host {
    pub(crate) node: Node,
    pub(crate) neighbor: String,
    life_cycles: usize,
    /// Number of crash points of each step in the last life cycle; `None`: of all steps together.
    counted: BTreeMap<Option<Step>, usize>,
    begin: Instant,
    history: Vec<String>,
    defects: Vec<String>,
    /// Number of failed and retried verbs.
    retried: BTreeMap<Step, usize>,
}

impl Host {
    pub(crate) fn new(runtime: &Runtime, go_plugin: &Program) -> Self {
        let node = Node::new(runtime);
        node.configure(CONFIG);
        node.launch_in_sessions("10-adjust", &Program::Adjust, ADJUST);
        let neighbor = node.id("neighbor");
        let resources = json!({"pids": {"limit": NEIGHBOR_AFTER}});
        let update = json!({"containerId": neighbor, "linux": {"resources": resources}});
        let resources = json!({"memory": {"limit": {"value": MEMORY_AFTER}}});
        let created = json!({"containerId": neighbor, "linux": {"resources": resources}});
        let rules = json!([
            {"event": "UpdateContainer", "id": node.id("life*"), "updates": [update]},
            {"event": "CreateContainer", "id": node.id("life*"), "updates": [created]},
        ]);
        node.launch_in_sessions(
            "20-go",
            go_plugin,
            &json!({"events": EVENTS, "rules": rules}).to_string(),
        );
        let process = json!({"args": ["/bin/sh", "-c", "test \"$CRASH\" = yes"], "cwd": "/",
            "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}});
        fs::write(node.path("process.json"), process.to_string())
            .expect("the test directory is writable");
        let bundle = node.bundle(&neighbor).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &neighbor).success();
        node.call(&["start", &neighbor]).success();
        Self {
            node,
            neighbor,
            life_cycles: 0,
            counted: BTreeMap::new(),
            begin: Instant::now(),
            history: Vec::new(),
            defects: Vec::new(),
            retried: BTreeMap::new(),
        }
    }

    /// Creates the bundle of a new life cycle, and returns it with the container's id.
    pub(crate) fn next_bundle(&mut self) -> (String, Bundle) {
        self.life_cycles += 1;
        self.history.clear();
        let id = self.node.id(&format!("life{}", self.life_cycles));
        let bundle = self.node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
        fs::write(original(&bundle), bundle.bytes()).expect("the test directory is writable");
        (id, bundle)
    }

    /// Sets the neighbor's limits to those before, as an engine does.
    pub(crate) fn set_neighbor_limits(&self) {
        let (pids, memory) = (["--pids-limit", NEIGHBOR_BEFORE], ["--memory", MEMORY_BEFORE]);
        self.node
            .call(&["update", pids[0], pids[1], memory[0], memory[1], &self.neighbor])
            .success();
    }

    /// Checks the memory limit of the neighbor.
    pub(crate) fn check_neighbor_memory(&mut self, expected: &str) {
        let files = ("memory.limit_in_bytes", "memory.max");
        let limit = self.node.try_cgroup_file(&self.neighbor, "memory", files.0, files.1);
        if limit.as_deref().ok() != Some(expected) {
            let defect = format!("memory limit of the neighbor: {limit:?}, not {expected}");
            self.report_defect(defect);
        }
    }

    /// Adds a line to the history.
    pub(crate) fn note(&mut self, action: impl Into<String>) {
        self.history.push(format!("{:8.3} {}", self.begin.elapsed().as_secs_f64(), action.into()));
    }

    /// Records a defect.
    pub(crate) fn report_defect(&mut self, defect: impl Into<String>) {
        let defect = defect.into();
        self.note(format!("DEFECT {defect}"));
        self.defects.push(defect);
    }

    /// Returns the recorded defects and forgets them.
    pub(crate) fn take_defects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.defects)
    }

    /// Returns the history of the current life cycle, and the end of the log of `nrid`.
    pub(crate) fn history(&self) -> String {
        let log = self.node.log();
        let tail: Vec<_> = log.lines().rev().take(25).collect();
        let tail: Vec<_> = tail.into_iter().rev().collect();
        format!("{}\n-- end of nrid.log:\n{}", self.history.join("\n"), tail.join("\n"))
    }

    /// Counts a verb that failed because of a crash and is retried.
    pub(crate) fn count_retried(&mut self, step: Step) {
        *self.retried.entry(step).or_default() += 1;
    }

    /// Returns and resets the number of verbs that failed because of a crash and were retried.
    pub(crate) fn take_retried(&mut self) -> BTreeMap<Step, usize> {
        std::mem::take(&mut self.retried)
    }

    /// Records the number of crash points of a step.
    pub(crate) fn count(&mut self, step: Option<Step>, points: usize) {
        self.counted.insert(step, points);
    }

    /// Returns and resets the recorded numbers of crash points.
    pub(crate) fn take_counted(&mut self) -> BTreeMap<Option<Step>, usize> {
        std::mem::take(&mut self.counted)
    }

    /// Whether the runtime has a state directory of the container.
    pub(crate) fn runtime_has(&self, id: &str) -> bool {
        self.node.root().join(id).exists()
    }

    /// Returns the status of a container from the runtime; `None` if the runtime does not have it.
    pub(crate) fn status(&self, id: &str) -> Option<String> {
        Some(self.node.state(id)?["status"].as_str()?.to_owned())
    }

    /// Waits until host, records and plugins agree.
    pub(crate) fn wait_until_all_agree(&mut self, when: &str) {
        self.wait_until_no_defect(when, Self::find_disagreement);
        let verified = self.node.ctl(&["verify"]);
        if verified.code != Some(0) {
            self.report_defect(format!(
                "{when}: nrictl verify: {} {}",
                verified.out(),
                verified.err()
            ));
        }
    }

    /// Waits until host, records and plugins agree after the last verb. Starts `nrid` before each
    /// check: the crash may kill it even now, and no verb follows that would start it.
    pub(crate) fn wait_until_all_agree_after_last_verb(&mut self) {
        self.wait_until_no_defect("after the last verb", |host| {
            host.node.ctl(&["start"]);
            host.find_disagreement()
        });
    }

    /// Waits until `find_defect` returns `None`. Records the defect returned last if the timeout
    /// expires.
    pub(crate) fn wait_until_no_defect(
        &mut self,
        when: &str,
        find_defect: impl Fn(&Self) -> Option<String>,
    ) {
        let deadline = Instant::now() + TIMEOUT;
        while let Some(defect) = find_defect(self) {
            if Instant::now() > deadline {
                return self.report_defect(format!("{when}: {defect}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.note(format!("no defect {when}"));
    }

    /// Returns the first difference between host, records and plugins; `None` if they agree.
    fn find_disagreement(&self) -> Option<String> {
        let ids: BTreeSet<String> = names(&self.node.root()).into_iter().collect();
        let has_stopped = |id: &String| self.status(id).is_none_or(|status| status == "stopped");
        let live: BTreeSet<String> = ids.iter().filter(|id| !has_stopped(id)).cloned().collect();
        // The output is incomplete if nrid is killed while it replies.
        let status: Value =
            serde_json::from_str(&self.node.ctl(&["status", "--json"]).out()).unwrap_or_default();
        if status["running"] != true {
            return Some("no nrid runs".to_owned());
        }
        let status = &status["status"];
        if status["containers"] != ids.len() || status["pods"] != ids.len() {
            return Some(format!(
                "nrid counts {} containers and {} pods instead of {ids:?}",
                status["containers"], status["pods"]
            ));
        }
        self.check_records(&ids).or_else(|| self.check_views(&live))
    }

    /// Checks that each record is complete JSON, and that exactly the existing containers have
    /// records. Returns the first defect.
    fn check_records(&self, ids: &BTreeSet<String>) -> Option<String> {
        let dir = self.node.state_dir();
        let parsed = |part: &str| -> Result<Vec<Value>, String> {
            let parse = |name: String| {
                let text = fs::read_to_string(dir.join(part).join(&name)).unwrap_or_default();
                let value: Value =
                    serde_json::from_str(&text).map_err(|e| format!("{part}/{name}: {e}"))?;
                if name.ends_with(".json") {
                    Ok(value)
                } else {
                    Err(format!("temporary file left: {part}/{name}"))
                }
            };
            names(&dir.join(part)).into_iter().map(parse).collect()
        };
        let check_all = || -> Result<(), String> {
            let containers: BTreeSet<_> = parsed("containers")?
                .iter()
                .map(|r| r["key"]["id"].as_str().unwrap_or_default().to_owned())
                .collect();
            if containers != *ids {
                return Err(format!(
                    "containers with a record are {containers:?} instead of {ids:?}"
                ));
            }
            let pods: BTreeSet<_> = parsed("pods")?
                .iter()
                .map(|p| p["sandbox"]["id"].as_str().unwrap_or_default().to_owned())
                .collect();
            if pods != *ids {
                return Err(format!("pods with a record are {pods:?} instead of {ids:?}"));
            }
            let markers = parsed("exec")?.len();
            if markers != ids.len() {
                return Err(format!("{markers} exec markers for the containers {ids:?}"));
            }
            Ok(())
        };
        check_all().err()
    }

    /// Checks that all plugins are connected and know exactly the live containers. Returns the
    /// first defect.
    fn check_views(&self, live: &BTreeSet<String>) -> Option<String> {
        let sessions: Vec<_> = self
            .node
            .sessions()
            .into_iter()
            .map(|(_, journal)| (View::of_session(&journal), journal))
            .collect();
        let connected: Vec<_> =
            sessions.iter().filter(|(view, _)| view.synchronized && !view.closed).collect();
        let missing = ["10-adjust.", "20-go."].into_iter().find(|name| {
            let is_of_plugin = |path: &Path| {
                path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
            };
            !connected.iter().any(|(_, journal)| is_of_plugin(journal))
        });
        if let Some(name) = missing {
            return Some(format!("plugin {name} is not connected"));
        }
        connected.iter().find_map(|(view, journal)| {
            let (containers, pods) = (view.containers(), view.pods());
            (containers != *live || pods != *live).then(|| {
                format!(
                    "{} knows containers {containers:?} and pods {pods:?} instead of {live:?}",
                    journal.display()
                )
            })
        })
    }
}

/// Path, beside the bundle, of a copy of the `config.json` that the engine wrote.
pub(crate) fn original(bundle: &Bundle) -> std::path::PathBuf {
    bundle.dir().with_extension("original")
}

/// Returns the names of the files in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
