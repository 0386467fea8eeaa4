//! Final checks, after the last fault: host, records and plugins agree, and after the deletion of
//! all containers no file, process, cgroup or mount is left.

use super::{
    calls::call,
    faults,
    life_cycles::containers_of_host,
    plugins::External,
    rng::Rng,
    run::{Run, lock},
};
use nri_integration::{Process, Program, TIMEOUT, View, WITHOUT_VALIDATION, cgroups_of};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Largest number of descriptors that `nrid` may have open when no container exists. Its sockets
/// and plugins need far fewer; a leak in each life cycle would exceed this limit.
const MAX_DESCRIPTORS: usize = 80;

/// Checks the final state of a run, then deletes all containers and stops `nrid`.
pub(super) fn check(run: &Run, go_plugin: &Program, externals: Vec<External>) {
    let mut rng = Rng::new(run.seed, 99);
    run.note("faults ended");
    run.node.ctl(&["start"]).success();
    let host = containers_of_host(run);
    run.note(format!("the host has {host:?}"));
    let live = Live::of(run, &host);
    check_counts(run, host.len(), live.all_pods);

    let config = json!({"events": WITHOUT_VALIDATION}).to_string();
    let last_plugin = External::start(run, 99, go_plugin, &config);
    check_views(run, &live, &last_plugin.journal);
    let verified = run.node.ctl(&["verify"]);
    if verified.code != Some(0) {
        run.report_defect(format!("nrictl verify: {} {}", verified.out(), verified.err()));
    }
    check_undisturbed_life_cycle(run, &mut rng);
    for (id, _) in &host {
        let deleted = call(run, &mut rng, 0, &["delete", "--force", id]);
        if !deleted.is_ok() || run.runtime_has(id) {
            run.report_defect(format!("{id} cannot be deleted after the faults have ended"));
        }
    }
    check_counts(run, 0, 0);
    check_views(run, &Live::default(), &last_plugin.journal);
    wait_until_no_defect(run, || {
        let sessions = run
            .node
            .sessions()
            .into_iter()
            .map(|(_, journal)| (View::of_session(&journal), journal));
        let mut connected = sessions.filter(|(view, _)| view.synchronized && !view.closed);
        connected.find(|(view, _)| !view.unfinished().is_empty()).map(|(view, journal)| {
            format!("{} has not received the removal of {:?}", journal.display(), view.unfinished())
        })
    });
    check_order_of_events(run);
    check_files(run);
    let descriptors: usize = run.node.nrids().iter().map(|nrid| nrid.files().len()).sum();
    if descriptors > MAX_DESCRIPTORS {
        run.report_defect(format!("nrid has {descriptors} open descriptors without a container"));
    }
    drop((last_plugin, externals));
    run.node.ctl(&["stop"]).success();
    check_host_is_clean(run);
}

/// Waits until `find_defect` returns `None`. Reports the defect returned last if the timeout
/// expires.
fn wait_until_no_defect(run: &Run, find_defect: impl Fn() -> Option<String>) {
    let deadline = Instant::now() + TIMEOUT;
    while let Some(defect) = find_defect() {
        if Instant::now() > deadline {
            return run.report_defect(defect);
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// Containers and pods that exist and have not stopped.
#[derive(Debug, Default)]
struct Live {
    containers: BTreeSet<String>,
    pods: BTreeSet<String>,
    /// Number of pods, including those that have stopped.
    all_pods: usize,
}

impl Live {
    /// Computes the live containers and pods. The clients have removed all pods with a sandbox
    /// container.
    fn of(run: &Run, host: &[(String, String)]) -> Self {
        let pods = lock(&run.pods);
        let is_live = |status: &str| status != "stopped";
        let containers =
            host.iter().filter(|(_, status)| is_live(status)).map(|(id, _)| id.clone());
        // A shared pod stops when its last container is removed, not when the container stops.
        let members = host.iter().filter(|(id, status)| is_live(status) || pods[id] != *id);
        let all: BTreeSet<_> = host.iter().map(|(id, _)| &pods[id]).collect();
        Self {
            containers: containers.collect(),
            pods: members.map(|(id, _)| pods[id].clone()).collect(),
            all_pods: all.len(),
        }
    }
}

/// Checks the numbers of containers and pods that `nrid` reports.
fn check_counts(run: &Run, containers: usize, pods: usize) {
    wait_until_no_defect(run, || {
        let Some(status) = run.node.status() else { return Some("no nrid runs".to_owned()) };
        let counts = (&status["containers"], &status["pods"]);
        (*counts.0 != containers || *counts.1 != pods).then(|| {
            format!(
                "nrid counts {} containers and {} pods instead of {containers} and {pods}",
                counts.0, counts.1
            )
        })
    });
}

/// Checks that all plugins are connected and know exactly the live containers and pods.
fn check_views(run: &Run, expected: &Live, last_plugin: &Path) {
    wait_until_no_defect(run, || {
        let sessions: Vec<_> = run
            .node
            .sessions()
            .into_iter()
            .map(|(_, journal)| (View::of_session(&journal), journal))
            .collect();
        let missing = ["10-adjust.", "20-go."].iter().find(|name| {
            let is_of_plugin = |path: &Path| {
                path.file_name().is_some_and(|f| f.to_string_lossy().starts_with(**name))
            };
            !sessions.iter().any(|(view, journal)| view.synchronized && is_of_plugin(journal))
        });
        if let Some(name) = missing {
            return Some(format!("plugin {name} has not been launched again"));
        }
        if !sessions.iter().any(|(view, journal)| view.synchronized && journal == last_plugin) {
            return Some("the plugin that connected last is not synchronized".to_owned());
        }
        // A plugin that was refused or disconnected may still run, but receives no events.
        let connected = sessions.into_iter().filter(|(view, _)| view.synchronized && !view.closed);
        let differs = |(view, journal): (View, PathBuf)| {
            (view.containers() != expected.containers || view.pods() != expected.pods).then(|| {
                let (name, containers, pods) = (journal.display(), view.containers(), view.pods());
                format!(
                    "{name} knows containers {containers:?} and pods {pods:?} instead of \
                     {expected:?}"
                )
            })
        };
        connected.filter_map(differs).next()
    });
}

/// Runs a life cycle without faults, and checks that all connected plugins receive all its events.
fn check_undisturbed_life_cycle(run: &Run, rng: &mut Rng) {
    let id = run.node.id("last");
    let (bundle, config) = (run.bundle(&id), run.config(&id, None, &["/bin/sleep", "1000"]));
    fs::create_dir(&bundle).expect("the test directory is writable");
    fs::write(bundle.join("config.json"), &config).expect("the test directory is writable");
    lock(&run.configs).insert(id.clone(), config);
    let connected: Vec<_> = run
        .node
        .sessions()
        .into_iter()
        .filter(|(_, journal)| {
            let view = View::of_session(journal);
            view.synchronized && !view.closed
        })
        .collect();
    let dir = bundle.to_str().expect("paths of tests are UTF-8");
    // Plugins of the run are still connected, and some refuse requests.
    let calls: [&[&str]; 4] = [
        &["create", "--bundle", dir, &id],
        &["start", &id],
        &["kill", &id, "KILL"],
        &["delete", "--force", &id],
    ];
    for arguments in calls {
        if !call(run, rng, 0, arguments).is_ok() {
            run.note("a plugin refused the life cycle without faults");
            call(run, rng, 0, &["delete", "--force", &id]);
            return;
        }
    }
    wait_until_no_defect(run, || {
        let incomplete = connected.iter().find_map(|(_, journal)| {
            let events = nri_integration::Journal::new(journal).events(&id);
            let events: Vec<_> = events
                .iter()
                .map(String::as_str)
                .filter(|e| WITHOUT_VALIDATION.contains(e))
                .collect();
            (!View::of_session(journal).closed && events != WITHOUT_VALIDATION)
                .then(|| format!("{}: {events:?}", journal.display()))
        });
        incomplete.map(|events| format!("wrong events of the life cycle without faults: {events}"))
    });
}

/// Checks that each plugin received its events in order.
fn check_order_of_events(run: &Run) {
    for entry in
        fs::read_dir(run.node.path("journals")).expect("the test directory is writable").flatten()
    {
        let view = View::of_session(&entry.path());
        run.count("sessions");
        for defect in view.out_of_order {
            run.report_defect(format!("{}: {defect}", entry.path().display()));
        }
    }
}

/// Checks that each bundle contains only the `config.json` that the engine wrote, and that runtime
/// and `nrid` left no files.
fn check_files(run: &Run) {
    let configs = lock(&run.configs);
    for (id, config) in configs.iter() {
        let dir = run.bundle(id);
        let found = fs::read_to_string(dir.join("config.json")).unwrap_or_default();
        if found != *config {
            run.report_defect(format!(
                "config.json of {id} differs from the one that the engine wrote"
            ));
        }
        let others: Vec<_> = names(&dir).into_iter().filter(|name| name != "config.json").collect();
        if !others.is_empty() {
            run.report_defect(format!(
                "the bundle of {id} has files besides config.json: {others:?}"
            ));
        }
    }
    // nrid removes the record of a pod after it has notified plugins of the removal.
    wait_until_no_defect(run, || {
        let mut left = names(&run.node.root());
        for dir in ["containers", "pods", "exec"] {
            left.extend(
                names(&run.node.state_dir().join(dir))
                    .into_iter()
                    .map(|name| format!("{dir}/{name}")),
            );
        }
        left.extend(names(&run.node.state_dir()).into_iter().filter(|name| name.ends_with(".new")));
        (!left.is_empty()).then(|| format!("files left: {left:?}"))
    });
}

/// Returns the names of the files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Checks that no process, cgroup or mount is left. Two kinds of leftovers are accepted, because
/// the wrapper cannot prevent them:
/// * an empty cgroup of a killed runtime;
/// * the child process of `create` or `run`, if crun was killed before it wrote the container's
///   state. A later `delete` does not find the process.
fn check_host_is_clean(run: &Run) {
    let node = &run.node;
    let dir = node.path("").into_os_string().into_string().expect("paths of tests are UTF-8");
    let prefix = node.prefix().to_owned();
    wait_until_no_defect(run, || {
        let leftover = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let mut arguments = line.trim_end().rsplit(' ');
            let was_interrupted =
                |id: &str| lock(&run.interrupted).contains(id.strip_prefix("crio-").unwrap_or(id));
            let has_interrupted_cgroup = || {
                let cgroups = process.cgroups();
                let mut lines = cgroups.lines().filter(|line| line.contains(&prefix));
                lines.any(|line| line.rsplit('/').next().is_some_and(was_interrupted))
            };
            let left_by_runtime = (run.node.runtime().name == "crun" && has_interrupted_cgroup())
                || (arguments.next().is_some_and(was_interrupted) && line.contains(" create "));
            if left_by_runtime && !line.contains("nri-container-runtime") {
                run.note(format!("the runtime left {} ({line})", process.0));
                faults::signal(*process, rustix::process::Signal::KILL);
                return None;
            }
            let is_leftover = process.0 != std::process::id()
                && process.is_alive()
                && (line.contains(&dir) || process.cgroups().contains(&prefix));
            is_leftover.then(|| format!("{} ({line})", process.0))
        };
        let left: Vec<_> = Process::all().iter().filter_map(leftover).collect();
        (!left.is_empty()).then(|| format!("processes left: {left:?}"))
    });
    let interrupted = lock(&run.interrupted);
    for cgroup in cgroups_of(&format!("{prefix}/")) {
        let id = cgroup.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !interrupted.contains(id.strip_prefix("crio-").unwrap_or(&id)) {
            run.report_defect(format!("cgroup left: {}", cgroup.display()));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for mount in mounts.lines().filter(|line| line.contains(&dir)) {
        run.report_defect(format!("mount left: {mount}"));
    }
}
