//! One round: a node, what is done to it, and what was found wrong.

use nri_integration::{Bundle, Node, Runtime};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// What is told of the state directory, so that a run of a few seconds meets all of it.
const CONFIG: &str = "engines = { crio = 'ours' }\nplugin_request_timeout = '1s'\nplugin_registration_timeout = '3s'\nstart_timeout = '20s'\n\
    plugin_restart_backoff = '100ms'\nplugin_restart_backoff_limit = '1s'\n";

pub(super) struct Run {
    pub(super) node: Node,
    pub(super) seed: u64,
    /// Faults and life cycles end at this time.
    pub(super) deadline: Instant,
    /// `config.json` of a container whose id is [`Run::template_id`].
    template: String,
    begin: Instant,
    history: Mutex<Vec<(Duration, String)>>,
    wrong: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, usize>>,
    /// What engines have written into each bundle last.
    pub(super) configs: Mutex<BTreeMap<String, String>>,
    /// The pod of each container.
    pub(super) pods: Mutex<BTreeMap<String, String>>,
    /// Containers that a plugin may ask an update for.
    pub(super) ids: Mutex<BTreeSet<String>>,
    /// Those whose creation was killed half way: their runtime may have left something.
    pub(super) torn: Mutex<BTreeSet<String>>,
}

impl Run {
    pub(super) fn new(runtime: &Runtime, state_dir: &Path, seed: u64, time: Duration) -> Self {
        let node = Node::with_state_dir(runtime, Some(state_dir));
        node.configure(CONFIG);
        let config = fs::read_to_string(node.config()).expect("it was written");
        // The log is not to fill the small disk.
        fs::write(node.config(), format!("{config}[log]\nfile = {:?}\n", node.path("nrid.log")))
            .unwrap();
        node.journals();
        let template = Self::template_of(&node);
        Self {
            node,
            seed,
            deadline: Instant::now() + time,
            template,
            begin: Instant::now(),
            history: Mutex::default(),
            wrong: Mutex::default(),
            counts: Mutex::default(),
            configs: Mutex::default(),
            pods: Mutex::default(),
            ids: Mutex::default(),
            torn: Mutex::default(),
        }
    }

    fn template_of(node: &Node) -> String {
        let bundle = node.bundle("TEMPLATE").arguments(&["ARGUMENTS"]).make();
        let text = String::from_utf8(bundle.bytes()).expect("the script writes text");
        fs::remove_dir_all(bundle.dir()).expect("our directory");
        text
    }

    /// The config.json of a container, as its engine writes it: with a pod, as CRI-O does.
    pub(super) fn config(&self, id: &str, pod: Option<&str>, arguments: &[&str]) -> String {
        let list: Vec<_> = arguments.iter().map(|a| format!("{a:?}")).collect();
        let text = self.template.replace("TEMPLATE", id).replace("\"ARGUMENTS\"", &list.join(", "));
        let Some(pod) = pod else { return text };
        let kind = if pod == id { "sandbox" } else { "container" };
        let annotations = format!(
            "\"annotations\": {{\"io.container.manager\": \"cri-o\", \"io.kubernetes.cri-o.SandboxID\": {pod:?}, \
             \"io.kubernetes.cri-o.ContainerType\": {kind:?}}}"
        );
        let cgroup = |name: &str| format!("{}/{name}\"", self.node.prefix());
        text.replace("\"annotations\": {}", &annotations)
            .replace(&cgroup(id), &cgroup(&format!("crio-{id}")))
    }

    /// The name of its control group. An id that is used again may have had another, which a
    /// runtime that was killed left.
    pub(super) fn cgroup(&self, id: &str) -> String {
        let name = format!("crio-{id}");
        if lock(&self.configs)[id].contains(&name) { name } else { id.to_owned() }
    }

    pub(super) fn bundle(&self, id: &str) -> PathBuf {
        Bundle::new(&self.node.path("bundles"), id).dir().to_owned()
    }

    /// Whether the runtime has something of this id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.node.root().join(id).exists()
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline || !lock(&self.wrong).is_empty()
    }

    pub(super) fn note(&self, what: impl Into<String>) {
        lock(&self.history).push((self.begin.elapsed(), what.into()));
    }

    pub(super) fn count(&self, what: &'static str) {
        *lock(&self.counts).entry(what).or_default() += 1;
    }

    /// Something that must not be.
    pub(super) fn wrong(&self, what: impl Into<String>) {
        let what = what.into();
        self.note(format!("WRONG {what}"));
        lock(&self.wrong).push(what);
    }

    pub(super) fn counts(&self) -> BTreeMap<&'static str, usize> {
        lock(&self.counts).clone()
    }

    /// Fails if anything was wrong, with what was done; where `NRI_CHAOS_KEEP` names a directory,
    /// everything is copied there.
    pub(super) fn judge(&self) {
        let wrong = lock(&self.wrong);
        if wrong.is_empty() {
            return;
        }
        let history: Vec<_> = lock(&self.history)
            .iter()
            .map(|(t, what)| format!("{:9.3} {what}", t.as_secs_f64()))
            .collect();
        let mut kept = String::new();
        if let Some(dir) = std::env::var_os("NRI_CHAOS_KEEP") {
            let dir = Path::new(&dir).join(self.node.prefix());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("history"), history.join("\n")).unwrap();
            for (from, to) in [(self.node.path(""), "node"), (self.node.state_dir(), "state")] {
                // Sockets cannot be copied, and are not missed.
                let _ =
                    std::process::Command::new("cp").arg("-r").arg(from).arg(dir.join(to)).output();
            }
            kept = format!("\nkept in {}", dir.display());
        }
        let tail = &history[history.len().saturating_sub(60)..];
        panic!(
            "{} of seed {}, {} wrong:\n{}\n-- the last of {} lines of what was done:\n{}{kept}",
            self.node.runtime().name,
            self.seed,
            wrong.len(),
            wrong.join("\n"),
            history.len(),
            tail.join("\n")
        );
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
