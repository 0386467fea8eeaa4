//! Plugins that come and go while containers do: what each of them knows is neither too much nor
//! too little, at whatever moment it came, and nobody's creation suffers from it.

use nri_integration::*;
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

const CREATORS: usize = 4;
const EACH: usize = 10;
/// Two at a time.
const CONNECTIONS: usize = 10;

/// A container's and its pod's life, validators apart.
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

/// When things were done to a container, as its engine saw it.
struct Lived {
    id: String,
    /// Before and after `create`.
    created: [Instant; 2],
    /// Before it was killed; `None` if it lived at the end.
    ended: Option<Instant>,
}

/// A plugin's connection.
struct Connection {
    name: String,
    journal: Journal,
    /// Before it connected, and after it was synchronized.
    came: [Instant; 2],
    /// Before it was ended; `None` if it was there at the end.
    left: Option<Instant>,
}

/// A plugin, and its configuration.
type Kind = (Program, String);

/// No validators: a creation does not go on without one that it had to ask, and plugins end in the
/// midst of it here.
fn kinds(gostub: Program) -> [Kind; 2] {
    // The oldest hears most events by another method of the protocol. It knows nothing of
    // validation.
    let oldest = versions("churn").first().expect("there is Go").program.clone();
    [(gostub, json!({"events": LIFE}).to_string()), (oldest, "{}".to_owned())]
}

fn live(node: &Node, id: String, stays: bool) -> Lived {
    let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
    let before = Instant::now();
    node.create(&bundle, &id).success();
    let created = [before, Instant::now()];
    node.call(&["start", &id]).success();
    let ended = (!stays).then(Instant::now);
    if !stays {
        node.call(&["kill", &id, "KILL"]).success();
        wait_until("the process's end", || (node.state(&id)?["status"] == "stopped").then_some(()));
        node.call(&["delete", &id]).success();
    }
    Lived { id, created, ended }
}

/// Connects plugins until the containers are through: each stays until a few more of them are.
fn come_and_go(node: &Node, kinds: &[Kind], first: usize, done: &AtomicUsize) -> Vec<Connection> {
    let steps = (first..CONNECTIONS).step_by(2);
    let connect = |n: usize| {
        let name = format!("{n:02}-churn");
        let before = Instant::now();
        let (program, config) = &kinds[n / 2 % kinds.len()];
        let plugin = node.connect(&name, program, config);
        let came = [before, Instant::now()];
        let goal = (n + 1) * CREATORS * EACH / (CONNECTIONS + 1);
        wait_until("more containers", || (done.load(Ordering::SeqCst) >= goal).then_some(()));
        let connection =
            Connection { name, journal: plugin.journal.clone(), came, left: Some(Instant::now()) };
        plugin.stop();
        connection
    };
    steps.map(connect).collect()
}

/// What a journal says about one container: its events in order, with `Known` for being
/// synchronized with it, `Pod` with its pod.
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
            // The pod of each has its id.
            event if entry["pod_id"].is_string() => add(&entry["pod_id"], event),
            _ => {}
        }
    }
    received
}

/// Returns what is wrong with the events that a plugin received of a container.
fn fault(events: &[String]) -> Option<String> {
    let events: Vec<_> = events.iter().map(String::as_str).collect();
    let known = events.iter().take_while(|e| ["Pod", "Known"].contains(e)).count();
    let (known, rest) = events.split_at(known);
    let place = |event: &str| LIFE.iter().position(|e| *e == event);
    let begin = rest.first().and_then(|e| place(e));
    if let Some(begin) = begin
        && !LIFE[begin..].starts_with(rest)
    {
        return Some(format!("not in order: {rest:?}"));
    }
    match (known, begin) {
        // It received the pod, and then the container if it stayed connected long enough.
        ([], Some(0)) => None,
        // The pod was there, but not its container.
        (["Pod"], Some(1) | None) => None,
        // It received both; its next events are later than the creation.
        (["Pod", "Known"], Some(2..=5) | None) => None,
        // The container had ended, the pod perhaps not yet.
        ([], Some(6..=8)) | (["Pod"], Some(6)) => None,
        _ => Some(format!("knows {known:?}, hears {rest:?}")),
    }
}

/// Why a plugin that was there then should have known the container, and how.
fn lack(connection: &Connection, container: &Lived, events: &[String]) -> Option<String> {
    let has = |event: &str| events.iter().any(|e| e == event);
    let left = connection.left;
    let lives_on = container.ended.is_none_or(|ended| left.is_some_and(|left| left < ended));
    let after = connection.came[1] < container.created[0];
    let stayed = left.is_none_or(|left| container.created[1] < left);
    if container.created[1] < connection.came[0] && lives_on && !has("Known") {
        return Some("it lived all the time and was not synchronized".to_owned());
    }
    if after && stayed && !(has("RunPodSandbox") && has("CreateContainer")) {
        return Some("it was created meanwhile and not told".to_owned());
    }
    let there = left.is_none() && container.ended.is_none();
    (there && !has("Known") && !has("CreateContainer"))
        .then(|| "both are there at the end".to_owned())
}

#[test]
fn the_checks_of_churn_find_faults() {
    let check = |events: &str, good: bool| {
        let events: Vec<_> = events.split_whitespace().map(str::to_owned).collect();
        assert_eq!(fault(&events).is_none(), good, "{events:?}");
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
fn a_reconnecting_plugin_knows_each_container_once() {
    let Some(gostub) = go("churn") else { return };
    let Some(runtime) = runtimes().0.iter().find(|r| r.name == "runc") else {
        return skip("churn", "no runc that can run a container here");
    };
    let kinds = kinds(gostub);
    let node = Node::new(runtime);
    node.ctl(&["start"]).success();
    // The root that all share is made once.
    let _ = node.bundle(&node.id("root")).make();
    let done = AtomicUsize::new(0);
    let (mut connections, lived) = thread::scope(|scope| {
        let creators: Vec<_> = (0..CREATORS)
            .map(|creator| {
                let (node, done) = (&node, &done);
                scope.spawn(move || -> Vec<_> {
                    let one = |n: usize| {
                        // Every fifth stays.
                        let lived = live(node, node.id(&format!("{creator}-{n}")), n % 5 == 4);
                        done.fetch_add(1, Ordering::SeqCst);
                        lived
                    };
                    (0..EACH).map(one).collect()
                })
            })
            .collect();
        let comers: Vec<_> = (0..2)
            .map(|first| {
                let (node, kinds, done) = (&node, &kinds, &done);
                scope.spawn(move || come_and_go(node, kinds, first, done))
            })
            .collect();
        let lived: Vec<_> =
            creators.into_iter().flat_map(|c| c.join().expect("no creation fails")).collect();
        let connections: Vec<_> = comers.into_iter().flat_map(|c| c.join().unwrap()).collect();
        (connections, lived)
    });
    let before = Instant::now();
    let last = node.connect("99-last", &kinds[0].0, &kinds[0].1);
    connections.push(Connection {
        name: "99-last".to_owned(),
        journal: last.journal.clone(),
        came: [before, Instant::now()],
        left: None,
    });
    let mut faults = Vec::new();
    for connection in &connections {
        let received = received(&connection.journal);
        for container in &lived {
            let events = received.get(&container.id).map(Vec::as_slice).unwrap_or_default();
            let found = if events.is_empty() { None } else { fault(events) };
            for why in found.into_iter().chain(lack(connection, container, events)) {
                faults.push(format!("{} and {}: {why}; {events:?}", connection.name, container.id));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let reported: usize = connections.iter().map(|c| received(&c.journal).len()).sum();
    assert!(reported > CREATORS * EACH, "the connections heard of something: {reported}");
}
