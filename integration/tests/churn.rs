//! Plugins connect and disconnect while containers are created and deleted: each plugin must learn
//! of every container exactly once, by the synchronization or by events, and no creation may fail.

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
/// Number of containers that each thread creates.
const CONTAINERS_PER_CREATOR: usize = 10;
/// Number of connections of plugins, of which two exist at a time.
const CONNECTIONS: usize = 10;

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

/// Returns the plugins of the test. No plugin validates: a creation fails if a validator exits
/// before its reply, as plugins do in this test.
fn kinds(gostub: Program) -> [Kind; 2] {
    // The oldest stub receives most events by another method of the protocol, and has no
    // validation.
    let oldest = versions("churn").first().expect("Go is installed").program.clone();
    [(gostub, json!({"events": WITHOUT_VALIDATION}).to_string()), (oldest, "{}".to_owned())]
}

/// Runs a container, which is deleted unless `keep` is set.
fn run_container(node: &Node, id: String, keep: bool) -> Container {
    let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
    let before = Instant::now();
    node.create(&bundle, &id).success();
    let created = [before, Instant::now()];
    node.call(&["start", &id]).success();
    let ended = (!keep).then(Instant::now);
    if !keep {
        node.call(&["kill", &id, "KILL"]).success();
        wait_until("the container to stop", || {
            (node.state(&id)?["status"] == "stopped").then_some(())
        });
        node.call(&["delete", &id]).success();
    }
    Container { id, created, ended }
}

/// Connects every second plugin from number `first` on, one after the other. Each plugin stays
/// connected until its share of the containers has been created.
fn connect_repeatedly(
    node: &Node,
    kinds: &[Kind],
    first: usize,
    created: &AtomicUsize,
) -> Vec<Connection> {
    let numbers = (first..CONNECTIONS).step_by(2);
    let connect = |n: usize| {
        let name = format!("{n:02}-churn");
        let before = Instant::now();
        let (program, config) = &kinds[n / 2 % kinds.len()];
        let plugin = node.connect(&name, program, config);
        let connected = [before, Instant::now()];
        let goal = (n + 1) * CREATORS * CONTAINERS_PER_CREATOR / (CONNECTIONS + 1);
        wait_until("more containers", || (created.load(Ordering::SeqCst) >= goal).then_some(()));
        let connection = Connection {
            name,
            journal: plugin.journal.clone(),
            connected,
            stopped: Some(Instant::now()),
        };
        plugin.stop();
        connection
    };
    numbers.map(connect).collect()
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

/// Returns the defect in the events that a plugin received about a container, if any. Numbers in
/// patterns are positions in [`WITHOUT_VALIDATION`].
fn defect(events: &[String]) -> Option<String> {
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let known = events.iter().take_while(|e| ["Pod", "Known"].contains(e)).count();
    let (known, rest) = events.split_at(known);
    let position = |event: &str| WITHOUT_VALIDATION.iter().position(|e| *e == event);
    let begin = rest.first().and_then(|e| position(e));
    if let Some(begin) = begin
        && !WITHOUT_VALIDATION[begin..].starts_with(rest)
    {
        return Some(format!("events not in order: {rest:?}"));
    }
    match (known, begin) {
        // The plugin received the creation of the pod and, if it was still connected then, the
        // creation of the container.
        ([], Some(0)) => None,
        // The pod existed before the plugin connected, but not its container.
        (["Pod"], Some(1) | None) => None,
        // Pod and container existed before the plugin connected, so it received no creation event.
        (["Pod", "Known"], Some(2..=5) | None) => None,
        // The container had stopped before the plugin connected; the pod may have stopped later.
        ([], Some(6..=8)) | (["Pod"], Some(6)) => None,
        _ => Some(format!("synchronized with {known:?}, then received {rest:?}")),
    }
}

/// Checks that the journal of a plugin mentions a container if both existed at the same time.
/// Returns a description of the missing event, if any.
fn missing_event(
    connection: &Connection,
    container: &Container,
    events: &[String],
) -> Option<String> {
    let has = |event: &str| events.iter().any(|e| e == event);
    let stopped = connection.stopped;
    let outlived_plugin =
        container.ended.is_none_or(|ended| stopped.is_some_and(|stopped| stopped < ended));
    let created_later = connection.connected[1] < container.created[0];
    let plugin_stayed = stopped.is_none_or(|stopped| container.created[1] < stopped);
    if container.created[1] < connection.connected[0] && outlived_plugin && !has("Known") {
        return Some(
            "the container existed before the plugin connected and is in no synchronization"
                .to_owned(),
        );
    }
    if created_later && plugin_stayed && !(has("RunPodSandbox") && has("CreateContainer")) {
        return Some(
            "the container was created while the plugin was connected and is in no event"
                .to_owned(),
        );
    }
    let both_exist = stopped.is_none() && container.ended.is_none();
    (both_exist && !has("Known") && !has("CreateContainer")).then(|| {
        "the plugin does not know the container, although both exist at the end".to_owned()
    })
}

#[test]
fn missing_repeated_and_reordered_events_are_defects() {
    let check = |events: &str, is_correct: bool| {
        let events: Vec<_> = events.split_whitespace().map(str::to_owned).collect();
        assert_eq!(defect(&events).is_none(), is_correct, "{events:?}");
    };
    check(&WITHOUT_VALIDATION.join(" "), true);
    for (events, is_correct) in [
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
        check(events, is_correct);
    }
}

#[test]
fn plugins_that_connect_at_any_time_learn_of_each_container_once() {
    let Some(gostub) = go_plugin("churn") else { return };
    let Some(runtime) = runtimes().0.iter().find(|r| r.name == "runc") else {
        return skip("churn", "no runc that can run a container here");
    };
    let kinds = kinds(gostub);
    let node = Node::new(runtime);
    node.ctl(&["start"]).success();
    // Create the shared root file system before the threads start.
    let _ = node.bundle(&node.id("root")).make();
    let created = AtomicUsize::new(0);
    let (mut connections, containers) = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                let (node, created) = (&node, &created);
                scope.spawn(move || -> Vec<_> {
                    let run_nth = |n: usize| {
                        // Every fifth container is kept.
                        let container =
                            run_container(node, node.id(&format!("{creator}-{n}")), n % 5 == 4);
                        created.fetch_add(1, Ordering::SeqCst);
                        container
                    };
                    (0..CONTAINERS_PER_CREATOR).map(run_nth).collect()
                })
            })
            .collect();
        let connectors: Vec<_> = (0..2)
            .map(|first| {
                let (node, kinds, created) = (&node, &kinds, &created);
                scope.spawn(move || connect_repeatedly(node, kinds, first, created))
            })
            .collect();
        let containers: Vec<_> =
            creators.into_iter().flat_map(|c| c.join().expect("no creation fails")).collect();
        let connections: Vec<_> = connectors.into_iter().flat_map(|c| c.join().unwrap()).collect();
        (connections, containers)
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
        for container in &containers {
            let events = received.get(&container.id).map(Vec::as_slice).unwrap_or_default();
            let found = if events.is_empty() { None } else { defect(events) };
            for why in found.into_iter().chain(missing_event(connection, container, events)) {
                defects
                    .push(format!("{} and {}: {why}; {events:?}", connection.name, container.id));
            }
        }
    }
    assert!(defects.is_empty(), "{}", defects.join("\n"));
    let known: usize = connections.iter().map(|c| received(&c.journal).len()).sum();
    // Two plugins are connected most of the time, so most containers are counted more than once.
    assert!(
        known > CREATORS * CONTAINERS_PER_CREATOR,
        "all plugins together have learned of only {known} containers"
    );
}
