//! Plugins connect and disconnect while containers are created and deleted: each plugin must know
//! every container exactly once, by the synchronization or by events, and no creation may fail.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

/// Number of threads that create containers.
const CREATORS: usize = 4;
/// Number of containers of each thread.
const EACH: usize = 10;
/// Number of connections of plugins, two at a time.
const CONNECTIONS: usize = 10;

/// Events of a container and its pod, without validation.
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

/// A container with the times of its engine's calls.
struct Container {
    id: String,
    /// Before and after `create`.
    created: [Instant; 2],
    /// Before the kill; `None` if the container runs at the end of the test.
    ended: Option<Instant>,
}

/// A plugin's connection.
struct Connection {
    name: String,
    journal: Journal,
    /// Before the plugin connected, and after it was synchronized.
    connected: [Instant; 2],
    /// Before the plugin was stopped; `None` if it is connected at the end of the test.
    stopped: Option<Instant>,
}

/// A plugin program and its configuration.
type Kind = (Program, String);

/// Returns the plugins of the test. None validates: a creation fails if a validator disconnects
/// before it has replied, which happens here.
fn kinds(gostub: Program) -> [Kind; 2] {
    // The oldest stub receives most events by another method of the protocol, and has no
    // validation.
    let oldest = versions("churn").first().expect("Go is installed").program.clone();
    [(gostub, json!({"events": LIFE}).to_string()), (oldest, "{}".to_owned())]
}

fn run_container(node: &Node, id: String, keep: bool) -> Container {
    let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
    let before = Instant::now();
    node.create(&bundle, &id).success();
    let created = [before, Instant::now()];
    node.call(&["start", &id]).success();
    let ended = (!keep).then(Instant::now);
    if !keep {
        node.call(&["kill", &id, "KILL"]).success();
        wait_until("the process's end", || (node.state(&id)?["status"] == "stopped").then_some(()));
        node.call(&["delete", &id]).success();
    }
    Container { id, created, ended }
}

/// Connects plugins one after the other, each until a share of the containers has been created.
fn connect_repeatedly(
    node: &Node,
    kinds: &[Kind],
    first: usize,
    done: &AtomicUsize,
) -> Vec<Connection> {
    let steps = (first..CONNECTIONS).step_by(2);
    let connect = |n: usize| {
        let name = format!("{n:02}-churn");
        let before = Instant::now();
        let (program, config) = &kinds[n / 2 % kinds.len()];
        let plugin = node.connect(&name, program, config);
        let connected = [before, Instant::now()];
        let goal = (n + 1) * CREATORS * EACH / (CONNECTIONS + 1);
        wait_until("more containers", || (done.load(Ordering::SeqCst) >= goal).then_some(()));
        let connection = Connection {
            name,
            journal: plugin.journal.clone(),
            connected,
            stopped: Some(Instant::now()),
        };
        plugin.stop();
        connection
    };
    steps.map(connect).collect()
}

/// Returns the events of a journal by container, in order; `Known` stands for the container in a
/// synchronization, `Pod` for its pod.
fn received(journal: &Journal) -> BTreeMap<String, Vec<String>> {
    let mut received: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut add = |id: &Value, event: &str| {
        received.entry(id.as_str().unwrap().to_owned()).or_default().push(event.to_owned());
    };
    for entry in journal.entries() {
        match entry["event"].as_str().unwrap() {
            "Synchronize" => {
                entry["pods"].as_array().into_iter().flatten().for_each(|id| add(id, "Pod"));
                entry["containers"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .for_each(|id| add(id, "Known"));
            }
            // Each container is its own pod, with the same id.
            event if entry["pod_id"].is_string() => add(&entry["pod_id"], event),
            _ => {}
        }
    }
    received
}

/// Returns the defect in the events that a plugin received of a container, if any.
fn defect(events: &[String]) -> Option<String> {
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let known = events.iter().take_while(|e| ["Pod", "Known"].contains(e)).count();
    let (known, rest) = events.split_at(known);
    let position = |event: &str| LIFE.iter().position(|e| *e == event);
    let begin = rest.first().and_then(|e| position(e));
    if let Some(begin) = begin
        && !LIFE[begin..].starts_with(rest)
    {
        return Some(format!("events not in order: {rest:?}"));
    }
    match (known, begin) {
        // The plugin received the creation of the pod, and that of the container if it was still
        // connected.
        ([], Some(0)) => None,
        // The pod existed before the plugin connected, but not its container.
        (["Pod"], Some(1) | None) => None,
        // Both existed before; the next event is later than the creation.
        (["Pod", "Known"], Some(2..=5) | None) => None,
        // The container had stopped before, and the pod possibly not yet.
        ([], Some(6..=8)) | (["Pod"], Some(6)) => None,
        _ => Some(format!("synchronized with {known:?}, then received {rest:?}")),
    }
}

/// Returns the reason why a plugin should have known a container that is missing in its journal.
fn missing(connection: &Connection, container: &Container, events: &[String]) -> Option<String> {
    let has = |event: &str| events.iter().any(|e| e == event);
    let stopped = connection.stopped;
    let outlived =
        container.ended.is_none_or(|ended| stopped.is_some_and(|stopped| stopped < ended));
    let after = connection.connected[1] < container.created[0];
    let stayed = stopped.is_none_or(|stopped| container.created[1] < stopped);
    if container.created[1] < connection.connected[0] && outlived && !has("Known") {
        return Some(
            "it existed before the plugin connected and is in no synchronization".to_owned(),
        );
    }
    if after && stayed && !(has("RunPodSandbox") && has("CreateContainer")) {
        return Some("it was created while the plugin was connected and is in no event".to_owned());
    }
    let both_left = stopped.is_none() && container.ended.is_none();
    (both_left && !has("Known") && !has("CreateContainer"))
        .then(|| "it is unknown although both exist at the end".to_owned())
}

#[test]
fn missing_repeated_and_reordered_events_are_defects() {
    let check = |events: &str, good: bool| {
        let events: Vec<_> = events.split_whitespace().map(str::to_owned).collect();
        assert_eq!(defect(&events).is_none(), good, "{events:?}");
    };
    let life = LIFE.join(" ");
    check(&life, true);
    for (events, good) in [
        ("Pod Known", true),
        ("Pod Known StartContainer PostStartContainer StopContainer", true),
        ("Pod CreateContainer PostCreateContainer", true),
        ("RemoveContainer RemovePodSandbox", true),
        ("Pod Known CreateContainer", false),
        ("Pod RunPodSandbox CreateContainer", false),
        ("Pod Known Known", false),
        ("Known StartContainer", false),
        ("CreateContainer PostCreateContainer", false),
        ("StartContainer", false),
        ("Pod StartContainer", false),
        ("Pod Known PostStartContainer StartContainer", false),
        ("Pod Known StartContainer StartContainer", false),
        ("RunPodSandbox CreateContainer StartContainer", false),
        ("RunPodSandbox CreateContainer PostCreateContainer Known", false),
    ] {
        check(events, good);
    }
}

#[test]
fn plugins_that_connect_at_any_time_know_each_container_once() {
    let Some(gostub) = go("churn") else { return };
    let Some(runtime) = runtimes().0.iter().find(|r| r.name == "runc") else {
        return skip("churn", "no runc that can run a container here");
    };
    let kinds = kinds(gostub);
    let node = Node::new(runtime);
    node.ctl(&["start"]).success();
    // Create the shared root file system before the threads start.
    let _ = node.bundle(&node.id("root")).make();
    let done = AtomicUsize::new(0);
    let (mut connections, lived) = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                let (node, done) = (&node, &done);
                scope.spawn(move || -> Vec<_> {
                    let one = |n: usize| {
                        // Every fifth container is kept.
                        let container =
                            run_container(node, node.id(&format!("{creator}-{n}")), n % 5 == 4);
                        done.fetch_add(1, Ordering::SeqCst);
                        container
                    };
                    (0..EACH).map(one).collect()
                })
            })
            .collect();
        let connectors: Vec<_> = (0..2)
            .map(|first| {
                let (node, kinds, done) = (&node, &kinds, &done);
                scope.spawn(move || connect_repeatedly(node, kinds, first, done))
            })
            .collect();
        let lived: Vec<_> =
            creators.into_iter().flat_map(|c| c.join().expect("no creation fails")).collect();
        let connections: Vec<_> = connectors.into_iter().flat_map(|c| c.join().unwrap()).collect();
        (connections, lived)
    });
    let before = Instant::now();
    let last = node.connect("99-last", &kinds[0].0, &kinds[0].1);
    connections.push(Connection {
        name: "99-last".to_owned(),
        journal: last.journal.clone(),
        connected: [before, Instant::now()],
        stopped: None,
    });
    let mut defects = Vec::new();
    for connection in &connections {
        let received = received(&connection.journal);
        for container in &lived {
            let events = received.get(&container.id).map(Vec::as_slice).unwrap_or_default();
            let found = if events.is_empty() { None } else { defect(events) };
            for why in found.into_iter().chain(missing(connection, container, events)) {
                defects
                    .push(format!("{} and {}: {why}; {events:?}", connection.name, container.id));
            }
        }
    }
    assert!(defects.is_empty(), "{}", defects.join("\n"));
    let reported: usize = connections.iter().map(|c| received(&c.journal).len()).sum();
    assert!(reported > CREATORS * EACH, "plugins know too few containers: {reported}");
}
