//! State of one round: the node, the history of actions and faults, and the defects found.

use nri_integration::{Bundle, Node, Runtime};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Configuration with timeouts so short that they can expire within a round.
const CONFIG: &str = "engines = { crio = 'ours' }\nplugin_request_timeout = '1s'\n\
    plugin_registration_timeout = '3s'\nstart_timeout = '20s'\n\
    plugin_restart_backoff = '100ms'\nplugin_restart_backoff_limit = '1s'\n";

/// One round of the chaos test.
pub(super) struct Run {
    pub(super) node: Node,
    pub(super) seed: u64,
    /// Time at which faults and life cycles end.
    pub(super) deadline: Instant,
    /// `config.json` with the placeholders `TEMPLATE` for the id of the container and `ARGUMENTS`
    /// for the arguments of its process.
    template: String,
    begin: Instant,
    history: Mutex<Vec<(Duration, String)>>,
    defects: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, usize>>,
    /// For each bundle, the `config.json` that the engine wrote last.
    pub(super) configs: Mutex<BTreeMap<String, String>>,
    /// The pod of each container.
    pub(super) pods: Mutex<BTreeMap<String, String>>,
    /// Containers of which a plugin may request an update.
    pub(super) ids: Mutex<BTreeSet<String>>,
    /// Containers of interrupted calls, for which the runtime may have left files or processes.
    pub(super) interrupted: Mutex<BTreeSet<String>>,
}

impl Run {
    pub(super) fn new(runtime: &Runtime, state_dir: &Path, seed: u64, duration: Duration) -> Self {
        let node = Node::with_state_dir(runtime, Some(state_dir));
        node.configure(CONFIG);
        let config = fs::read_to_string(node.config()).expect("the node writes its configuration");
        // The log is not in the state directory, which is on the small disk and would be filled.
        fs::write(node.config(), format!("{config}[log]\nfile = {:?}\n", node.path("nrid.log")))
            .unwrap();
        node.journals();
        let template = Self::make_template(&node);
        Self {
            node,
            seed,
            deadline: Instant::now() + duration,
            template,
            begin: Instant::now(),
            history: Mutex::default(),
            defects: Mutex::default(),
            counts: Mutex::default(),
            configs: Mutex::default(),
            pods: Mutex::default(),
            ids: Mutex::default(),
            interrupted: Mutex::default(),
        }
    }

    fn make_template(node: &Node) -> String {
        let bundle = node.bundle("TEMPLATE").arguments(&["ARGUMENTS"]).make();
        let text = String::from_utf8(bundle.bytes()).expect("config.json is UTF-8");
        fs::remove_dir_all(bundle.dir()).expect("the test directory is writable");
        text
    }

    /// Returns the `config.json` of a container. If `pod` is given, the annotations and the cgroup
    /// are those that CRI-O writes.
    pub(super) fn config(&self, id: &str, pod: Option<&str>, arguments: &[&str]) -> String {
        let list: Vec<_> = arguments.iter().map(|a| format!("{a:?}")).collect();
        let text = self.template.replace("TEMPLATE", id).replace("\"ARGUMENTS\"", &list.join(", "));
        let Some(pod) = pod else { return text };
        let kind = if pod == id { "sandbox" } else { "container" };
        let annotations = format!(
            "\"annotations\": {{\"io.container.manager\": \"cri-o\", \
                         \"io.kubernetes.cri-o.SandboxID\": {pod:?}, \
                         \"io.kubernetes.cri-o.ContainerType\": {kind:?}}}"
        );
        let cgroup = |name: &str| format!("{}/{name}\"", self.node.prefix());
        text.replace("\"annotations\": {}", &annotations)
            .replace(&cgroup(id), &cgroup(&format!("crio-{id}")))
    }

    /// Name of a container's cgroup, from its current `config.json`. The previous container of a
    /// reused id may have had another cgroup, which a killed runtime may have left.
    pub(super) fn cgroup(&self, id: &str) -> String {
        let name = format!("crio-{id}");
        if lock(&self.configs)[id].contains(&name) { name } else { id.to_owned() }
    }

    /// Path of a container's bundle.
    pub(super) fn bundle(&self, id: &str) -> PathBuf {
        Bundle::new(&self.node.path("bundles"), id).dir().to_owned()
    }

    /// Whether the runtime has a state directory of the container.
    pub(super) fn runtime_has(&self, id: &str) -> bool {
        self.node.root().join(id).exists()
    }

    /// Whether the time of the run is over or a defect was reported.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || !lock(&self.defects).is_empty()
    }

    /// Adds a line to the history.
    pub(super) fn note(&self, action: impl Into<String>) {
        lock(&self.history).push((self.begin.elapsed(), action.into()));
    }

    /// Counts an action.
    pub(super) fn count(&self, action: &'static str) {
        *lock(&self.counts).entry(action).or_default() += 1;
    }

    /// Records a defect.
    pub(super) fn report_defect(&self, defect: impl Into<String>) {
        let defect = defect.into();
        self.note(format!("DEFECT {defect}"));
        lock(&self.defects).push(defect);
    }

    /// Returns the number of times that each action was performed.
    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        lock(&self.counts).clone()
    }

    /// Panics with all defects and the end of the history if a defect was recorded. With
    /// `NRI_CHAOS_KEEP=DIR`, copies the history and the node's files to a folder of DIR.
    pub(super) fn fail_on_defects(&self) {
        let defects = lock(&self.defects);
        if defects.is_empty() {
            return;
        }
        let history: Vec<_> = lock(&self.history)
            .iter()
            .map(|(time, action)| format!("{:9.3} {action}", time.as_secs_f64()))
            .collect();
        let mut kept_files = String::new();
        if let Some(dir) = std::env::var_os("NRI_CHAOS_KEEP") {
            let dir = Path::new(&dir).join(self.node.prefix());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("history"), history.join("\n")).unwrap();
            for (from, to) in [(self.node.path(""), "node"), (self.node.state_dir(), "state")] {
                // cp cannot copy sockets; they are not needed, so its result is ignored.
                let _ =
                    std::process::Command::new("cp").arg("-r").arg(from).arg(dir.join(to)).output();
            }
            kept_files = format!("\nfiles kept in {}", dir.display());
        }
        let tail = &history[history.len().saturating_sub(60)..];
        panic!(
            "{} with seed {}, {} defects:\n{}\n-- end of the history of {} lines:\n{}{kept_files}",
            self.node.runtime().name,
            self.seed,
            defects.len(),
            defects.join("\n"),
            history.len(),
            tail.join("\n")
        );
    }
}

/// Locks a mutex, even if another thread panicked while it held the lock.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
