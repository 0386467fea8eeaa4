//! Host with two launched plugins and a running neighbour container, and the check that host,
//! records and plugins agree.

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

/// Pids limit that an engine's update sets.
pub(crate) const PIDS: &str = "77";
/// Pids limits of the neighbour before and after a plugin has updated it.
pub(crate) const NEIGHBOUR_BEFORE: &str = "999";
pub(crate) const NEIGHBOUR_AFTER: &str = "555";

const CONFIG: &str = "plugin_restart_backoff = '100ms'\nplugin_restart_backoff_limit = '1s'\n";
const ADJUST: &str =
    "[create]\nenv = { set = { CRASH = 'yes' } }\n[create.resources]\nshares = 300\n";
const LIFE: [&str; 11] = View::EVENTS;

/// A node with a neighbour container, and the history of the current life cycle.
pub(crate) struct Host {
    pub(crate) node: Node,
    pub(crate) neighbour: String,
    life_cycles: usize,
    counted: BTreeMap<Option<Step>, usize>,
    begin: Instant,
    history: Vec<String>,
    wrong: Vec<String>,
    failed: BTreeMap<Step, usize>,
}

impl Host {
    pub(crate) fn new(runtime: &Runtime, go: &Program) -> Self {
        let node = Node::new(runtime);
        node.configure(CONFIG);
        node.launch_in_sessions("10-adjust", &Program::Adjust, ADJUST);
        let neighbour = node.id("neighbour");
        let update =
            json!({"containerId": neighbour, "linux": {"resources": {"pids": {"limit": "555"}}}});
        let rules =
            json!([{"event": "UpdateContainer", "id": node.id("life*"), "updates": [update]}]);
        node.launch_in_sessions("20-go", go, &json!({"events": LIFE, "rules": rules}).to_string());
        let process = json!({"args": ["/bin/sh", "-c", "test \"$CRASH\" = yes"], "cwd": "/",
            "env": ["PATH=/bin"], "user": {"uid": 0, "gid": 0}});
        fs::write(node.path("process.json"), process.to_string())
            .expect("the test directory is writable");
        let bundle = node.bundle(&neighbour).arguments(&["/bin/sleep", "1000"]).make();
        node.create(&bundle, &neighbour).success();
        node.call(&["start", &neighbour]).success();
        Self {
            node,
            neighbour,
            life_cycles: 0,
            counted: BTreeMap::new(),
            begin: Instant::now(),
            history: Vec::new(),
            wrong: Vec::new(),
            failed: BTreeMap::new(),
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

    /// Sets the neighbour's pids limit as an engine.
    pub(crate) fn set_neighbour(&self) {
        self.node.call(&["update", "--pids-limit", NEIGHBOUR_BEFORE, &self.neighbour]).success();
    }

    pub(crate) fn note(&mut self, action: impl Into<String>) {
        self.history.push(format!("{:8.3} {}", self.begin.elapsed().as_secs_f64(), action.into()));
    }

    /// Records a defect.
    pub(crate) fn wrong(&mut self, defect: impl Into<String>) {
        let defect = defect.into();
        self.note(format!("WRONG {defect}"));
        self.wrong.push(defect);
    }

    pub(crate) fn take_wrong(&mut self) -> Vec<String> {
        std::mem::take(&mut self.wrong)
    }

    pub(crate) fn history(&self) -> String {
        let log = self.node.log();
        let tail: Vec<_> = log.lines().rev().take(25).collect();
        let tail: Vec<_> = tail.into_iter().rev().collect();
        format!("{}\n-- end of nrid.log:\n{}", self.history.join("\n"), tail.join("\n"))
    }

    pub(crate) fn count_failed(&mut self, step: Step) {
        *self.failed.entry(step).or_default() += 1;
    }

    /// Returns and resets the number of verbs that failed because of a crash and were retried.
    pub(crate) fn take_failed(&mut self) -> BTreeMap<Step, usize> {
        std::mem::take(&mut self.failed)
    }

    /// Records the number of crash points of a step.
    pub(crate) fn count(&mut self, step: Option<Step>, points: usize) {
        self.counted.insert(step, points);
    }

    /// Returns and resets the recorded numbers of crash points.
    pub(crate) fn take_counted(&mut self) -> BTreeMap<Option<Step>, usize> {
        std::mem::take(&mut self.counted)
    }

    /// Whether the runtime has a state directory of this id.
    pub(crate) fn has(&self, id: &str) -> bool {
        self.node.root().join(id).exists()
    }

    /// Status of a container that the runtime reports.
    pub(crate) fn status(&self, id: &str) -> Option<String> {
        Some(self.node.state(id)?["status"].as_str()?.to_owned())
    }

    /// Waits until host, records and plugins agree.
    pub(crate) fn wait_until_all_agree(&mut self, when: &str) {
        self.wait_for_no_objection(when, Self::disagreement);
        let verified = self.node.ctl(&["verify"]);
        if verified.code != Some(0) {
            self.wrong(format!("{when}: nrictl verify: {} {}", verified.out(), verified.err()));
        }
    }

    /// Waits until all agree after the last verb. Starts `nrid` each time, since no verb follows
    /// that would, and a pending crash may still kill it.
    pub(crate) fn wait_until_all_agree_after_last_verb(&mut self) {
        self.wait_for_no_objection("after the last verb", |host| {
            host.node.ctl(&["start"]);
            host.disagreement()
        });
    }

    /// Waits until `objection` returns `None`; records the objection as a defect after the timeout.
    pub(crate) fn wait_for_no_objection(
        &mut self,
        when: &str,
        objection: impl Fn(&Self) -> Option<String>,
    ) {
        let deadline = Instant::now() + TIMEOUT;
        while let Some(why) = objection(self) {
            if Instant::now() > deadline {
                return self.wrong(format!("{when}: {why}"));
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.note(format!("no objection {when}"));
    }

    fn disagreement(&self) -> Option<String> {
        let ids: BTreeSet<String> = names(&self.node.root()).into_iter().collect();
        let has_stopped = |id: &String| self.status(id).is_none_or(|status| status == "stopped");
        let live: BTreeSet<String> = ids.iter().filter(|id| !has_stopped(id)).cloned().collect();
        // nrid may be killed while it replies.
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

    /// Checks that each record is complete, and that there is one for each existing container.
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
                    Err(format!("left over: {part}/{name}"))
                }
            };
            names(&dir.join(part)).into_iter().map(parse).collect()
        };
        let all = || -> Result<(), String> {
            let known: BTreeSet<_> = parsed("containers")?
                .iter()
                .map(|r| r["key"]["id"].as_str().unwrap_or_default().to_owned())
                .collect();
            if known != *ids {
                return Err(format!("containers with a record are {known:?} instead of {ids:?}"));
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
        all().err()
    }

    /// Checks that all plugins are connected and know exactly the live containers.
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
            let is = |path: &Path| {
                path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name))
            };
            !connected.iter().any(|(_, journal)| is(journal))
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

/// Path of a copy of config.json as the engine wrote it, beside the bundle.
pub(crate) fn original(bundle: &Bundle) -> std::path::PathBuf {
    bundle.dir().with_extension("original")
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
