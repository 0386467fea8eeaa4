//! Checks after the faults have ended: host, records and plugins agree; after all containers are
//! deleted, nothing is left.

use super::{
    calls::call,
    faults,
    life_cycles::containers_of_host,
    plugins::External,
    rng::Rng,
    run::{Run, lock},
};
use nri_integration::{Process, Program, TIMEOUT, View, cgroups_of};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Events of a life cycle that a connected plugin receives, without updates.
const LIFE: [&str; 9] = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "StopContainer",
    "StopPodSandbox",
    "RemoveContainer",
    "RemovePodSandbox",
];

/// Checks the final state of a run, then deletes all containers and stops `nrid`.
pub(super) fn check(run: &Run, go: &Program, externals: Vec<External>) {
    let mut rng = Rng::new(run.seed, 99);
    run.note("faults ended");
    run.node.ctl(&["start"]).success();
    let host = containers_of_host(run);
    run.note(format!("the host has {host:?}"));
    let live = Live::of(run, &host);
    check_counts(run, host.len(), live.all_pods);

    let config = json!({"events": LIFE}).to_string();
    let last = External::start(run, 99, go, &config);
    check_views(run, &live, &last.journal);
    let verified = run.node.ctl(&["verify"]);
    if verified.code != Some(0) {
        run.wrong(format!("nrictl verify: {} {}", verified.out(), verified.err()));
    }
    check_undisturbed_life_cycle(run, &mut rng);
    for (id, _) in &host {
        let deleted = call(run, &mut rng, 0, &["delete", "--force", id]);
        if !deleted.is_ok() || run.has(id) {
            run.wrong(format!("{id} cannot be deleted after the faults have ended"));
        }
    }
    check_counts(run, 0, 0);
    check_views(run, &Live::default(), &last.journal);
    wait_for_no_objection(run, || {
        let live = run
            .node
            .sessions()
            .into_iter()
            .map(|(_, journal)| (View::of_session(&journal), journal));
        let mut connected = live.filter(|(view, _)| view.synchronized && !view.closed);
        connected.find(|(view, _)| !view.unfinished().is_empty()).map(|(view, journal)| {
            format!("{} has not received the removal of {:?}", journal.display(), view.unfinished())
        })
    });
    check_order_of_events(run);
    check_files(run);
    let open: usize = run.node.nrids().iter().map(|nrid| nrid.files().len()).sum();
    if open > 80 {
        run.wrong(format!("nrid has {open} descriptors open"));
    }
    drop((last, externals));
    run.node.ctl(&["stop"]).success();
    check_host_is_clean(run);
}

/// Waits until `objection` returns `None`; records the objection as a defect after the timeout.
fn wait_for_no_objection(run: &Run, objection: impl Fn() -> Option<String>) {
    let deadline = Instant::now() + TIMEOUT;
    while let Some(why) = objection() {
        if Instant::now() > deadline {
            return run.wrong(why);
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
    /// Computes the live containers and pods. No pod with a sandbox container is left at this
    /// point.
    fn of(run: &Run, host: &[(String, String)]) -> Self {
        let pods = lock(&run.pods);
        let is_live = |status: &str| status != "stopped";
        let containers =
            host.iter().filter(|(_, status)| is_live(status)).map(|(id, _)| id.clone());
        // A shared pod is removed with its last container.
        let live = host.iter().filter(|(id, status)| is_live(status) || pods[id] != *id);
        let all: BTreeSet<_> = host.iter().map(|(id, _)| &pods[id]).collect();
        Self {
            containers: containers.collect(),
            pods: live.map(|(id, _)| pods[id].clone()).collect(),
            all_pods: all.len(),
        }
    }
}

fn check_counts(run: &Run, containers: usize, pods: usize) {
    wait_for_no_objection(run, || {
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
fn check_views(run: &Run, host: &Live, last: &Path) {
    wait_for_no_objection(run, || {
        let live: Vec<_> = run
            .node
            .sessions()
            .into_iter()
            .map(|(_, journal)| (View::of_session(&journal), journal))
            .collect();
        let missing = ["10-adjust.", "20-go."].iter().find(|name| {
            let is = |path: &Path| {
                path.file_name().is_some_and(|f| f.to_string_lossy().starts_with(**name))
            };
            !live.iter().any(|(view, journal)| view.synchronized && is(journal))
        });
        if let Some(name) = missing {
            return Some(format!("plugin {name} has not been restarted"));
        }
        if !live.iter().any(|(view, journal)| view.synchronized && journal == last) {
            return Some("the plugin that connected last is not synchronized".to_owned());
        }
        // A plugin that was refused or disconnected may still run.
        let connected = live.into_iter().filter(|(view, _)| view.synchronized && !view.closed);
        let differs = |(view, journal): (View, PathBuf)| {
            (view.containers() != host.containers || view.pods() != host.pods).then(|| {
                let (name, containers, pods) = (journal.display(), view.containers(), view.pods());
                format!(
                    "{name} knows containers {containers:?} and pods {pods:?} instead of {host:?}"
                )
            })
        };
        connected.filter_map(differs).next()
    });
}

/// Runs a life cycle without faults, of which all connected plugins must receive every event.
fn check_undisturbed_life_cycle(run: &Run, rng: &mut Rng) {
    let id = run.node.id("last");
    let (bundle, config) = (run.bundle(&id), run.config(&id, None, &["/bin/sleep", "1000"]));
    fs::create_dir(&bundle).expect("the test directory is writable");
    fs::write(bundle.join("config.json"), &config).expect("the test directory is writable");
    lock(&run.configs).insert(id.clone(), config);
    let before: Vec<_> = run
        .node
        .sessions()
        .into_iter()
        .filter(|(_, j)| !View::of_session(j).closed && View::of_session(j).synchronized)
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
            run.note("a plugin refused the last life cycle");
            call(run, rng, 0, &["delete", "--force", &id]);
            return;
        }
    }
    wait_for_no_objection(run, || {
        let incomplete = before.iter().find_map(|(_, journal)| {
            let events = nri_integration::Journal::new(journal).events(&id);
            let events: Vec<_> =
                events.iter().map(String::as_str).filter(|e| LIFE.contains(e)).collect();
            (!View::of_session(journal).closed && events != LIFE)
                .then(|| format!("{}: {events:?}", journal.display()))
        });
        incomplete.map(|why| format!("events of the life cycle without faults are wrong: {why}"))
    });
}

/// Checks that each plugin received its events in order.
fn check_order_of_events(run: &Run) {
    for entry in
        fs::read_dir(run.node.path("journals")).expect("the test directory is writable").flatten()
    {
        let view = View::of_session(&entry.path());
        run.count("sessions");
        for why in view.wrong {
            run.wrong(format!("{}: {why}", entry.path().display()));
        }
    }
}

/// Checks that bundles are as the engine wrote them, and that runtime and `nrid` left no files.
fn check_files(run: &Run) {
    let configs = lock(&run.configs);
    for (id, config) in configs.iter() {
        let dir = run.bundle(id);
        let found = fs::read_to_string(dir.join("config.json")).unwrap_or_default();
        if found != *config {
            run.wrong(format!("config.json of {id} is not as its engine wrote it"));
        }
        let others: Vec<_> = names(&dir).into_iter().filter(|name| name != "config.json").collect();
        if !others.is_empty() {
            run.wrong(format!("the bundle of {id} has more files: {others:?}"));
        }
    }
    // nrid removes the record of a pod after it has notified plugins of the removal.
    wait_for_no_objection(run, || {
        let mut left = names(&run.node.root());
        for dir in ["containers", "pods", "exec"] {
            left.extend(
                names(&run.node.state_dir().join(dir))
                    .into_iter()
                    .map(|name| format!("{dir}/{name}")),
            );
        }
        left.extend(names(&run.node.state_dir()).into_iter().filter(|name| name.ends_with(".new")));
        (!left.is_empty()).then(|| format!("left over: {left:?}"))
    });
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Checks that no process, cgroup or mount is left. A killed runtime may leave an empty cgroup, and
/// crun the child of a `create` or `run` of which it has not written the state yet, so that it
/// cannot delete it; neither is a defect of the wrapper.
fn check_host_is_clean(run: &Run) {
    let node = &run.node;
    let dir = node.path("").into_os_string().into_string().expect("paths of tests are UTF-8");
    let prefix = node.prefix().to_owned();
    wait_for_no_objection(run, || {
        let leftover = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let mut arguments = line.trim_end().rsplit(' ');
            let was_interrupted =
                |id: &str| lock(&run.interrupted).contains(id.strip_prefix("crio-").unwrap_or(id));
            let has_interrupted_cgroup = || {
                let cgroups = process.cgroups();
                let mut names = cgroups.lines().filter(|line| line.contains(&prefix));
                names.any(|line| line.rsplit('/').next().is_some_and(was_interrupted))
            };
            let left_by_runtime = (run.node.runtime().name == "crun" && has_interrupted_cgroup())
                || (arguments.next().is_some_and(was_interrupted) && line.contains(" create "));
            if left_by_runtime && !line.contains("nri-container-runtime") {
                run.note(format!("the runtime left {} ({line})", process.0));
                faults::signal(*process, rustix::process::Signal::KILL);
                return None;
            }
            let is = process.0 != std::process::id()
                && process.is_alive()
                && (line.contains(&dir) || process.cgroups().contains(&prefix));
            is.then(|| format!("{} ({line})", process.0))
        };
        let left: Vec<_> = Process::all().iter().filter_map(leftover).collect();
        (!left.is_empty()).then(|| format!("processes left: {left:?}"))
    });
    let interrupted = lock(&run.interrupted);
    for cgroup in cgroups_of(&format!("{prefix}/")) {
        let id = cgroup.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !interrupted.contains(id.strip_prefix("crio-").unwrap_or(&id)) {
            run.wrong(format!("cgroup left: {}", cgroup.display()));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for mount in mounts.lines().filter(|line| line.contains(&dir)) {
        run.wrong(format!("mount left: {mount}"));
    }
}
