//! The table of what exists of a pod and a container at each event, by engine, in
//! `docs/reference/plugin-authors.md`. `NRI_REGENERATE=1` writes that of the first suite.

use crate::{
    adjusted::*,
    cri::{Pod, WAIT as CRI_WAIT, remove},
    ctr::kill_and_delete,
};
use nri_integration::{engines::*, *};
use serde_json::{Value, json};
use std::{fs, path::Path};

const BEGIN: &str = "<!-- table of events: begin -->\n";
const END: &str = "<!-- table of events: end -->";

const EVENTS: [&str; 9] = [
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

/// A column of the table.
struct Column {
    engine: &'static str,
    /// A cell for each event.
    cells: Vec<String>,
}

impl Column {
    /// Waits until the container's pod is removed, and reads its events.
    fn of(engine: &'static str, journal: &Journal, pod: &str, container: &str) -> Self {
        journal.wait_for("RemovePodSandbox", pod);
        let entries = journal.entries_about(pod);
        let is_own = |e: &&Value| e["container_id"].is_null() || e["container_id"] == container;
        let own: Vec<_> = entries.iter().filter(is_own).collect();
        let cell = |event: &str| {
            let found = own.iter().find(|e| e["event"] == event);
            facts(found.unwrap_or_else(|| panic!("{engine}: no {event}: {own:?}")))
        };
        Self { engine, cells: EVENTS.map(cell).to_vec() }
    }
}

/// Returns the letters of what an event has.
fn facts(event: &Value) -> String {
    let (pod, container) = (&event["pod"], &event["container"]);
    let namespaces = pod["linux"]["namespaces"].as_array().into_iter().flatten();
    let mut network = namespaces.filter(|n| n["type"] == "network");
    let has = |value: &Value| !matches!(value, Value::Null) && *value != json!("");
    let letters = [
        ("P", has(&pod["pid"])),
        ("G", has(&pod["linux"]["cgroupsPath"])),
        ("N", network.any(|n| has(&n["path"]))),
        ("I", has(&pod["ips"])),
        ("C", has(&container["pid"])),
    ];
    let found: Vec<_> = letters.iter().filter(|(_, has)| *has).map(|(letter, _)| *letter).collect();
    if found.is_empty() { "-".to_owned() } else { found.join(" ") }
}

fn of_cri(suite: &Suite, go_plugin: &Program) -> Column {
    let containerd = Containerd::start(suite);
    containerd.ctl(&["start"]).success();
    let plugin = containerd.connect("10-go", go_plugin, "{}");
    let pod = Pod::run(&containerd, "web");
    let container = pod.start("one", &json!({}), &CRI_WAIT);
    remove(&containerd, &container);
    let id = pod.id.clone();
    pod.remove();
    Column::of("CRI (containerd)", &plugin.journal, &id, &container)
}

fn of_ctr(suite: &Suite, go_plugin: &Program) -> Column {
    let containerd = Containerd::start(suite);
    containerd.ctl(&["start"]).success();
    let plugin = containerd.connect("10-go", go_plugin, "{}");
    let (id, launcher) = (containerd.id("c"), containerd.launcher());
    let run = ["run", "--detach", "--runc-binary", launcher.to_str().unwrap(), IMAGE, &id];
    containerd.ctr(&[&run[..], &["/bin/sleep", "1000"]].concat()).success();
    kill_and_delete(&containerd, &plugin.journal, &id);
    Column::of("`ctr`", &plugin.journal, &id, &id)
}

fn of_engine<E: Engine>(engine: &'static str, suite: &Suite, go_plugin: &Program) -> Column {
    let adjusted = Adjusted::with(E::start(suite), go_plugin, &json!({}));
    let id = adjusted.engine.run_detached("web", &[&[IMAGE], &WAIT[..]].concat());
    adjusted.engine.out(&["rm", "--force", "web"]);
    Column::of(engine, &adjusted.plugin.journal, &id, &id)
}

fn of_podman_pod(suite: &Suite, go_plugin: &Program) -> Column {
    let adjusted = Adjusted::with(Podman::start(suite), go_plugin, &json!({}));
    let podman = &adjusted.engine;
    let pod = podman.out(&["pod", "create", "--name", "shop"]);
    let id = podman.run_detached("web", &[&["--pod=shop", IMAGE], &WAIT[..]].concat());
    podman.out(&["rm", "--force", "web"]);
    podman.out(&["pod", "rm", "--force", "shop"]);
    Column::of("Podman's pods", &adjusted.plugin.journal, &pod, &id)
}

fn of_shell(suite: &Suite, go_plugin: &Program) -> Column {
    let node = Node::new(&Runtime { name: "runc", path: suite.program("runc") });
    node.ctl(&["start"]).success();
    let plugin = node.connect("10-go", go_plugin, "{}");
    let id = node.id("c");
    let bundle = node.bundle(&id).arguments(&["/bin/sleep", "1000"]).make();
    node.create(&bundle, &id).success();
    node.call(&["start", &id]).success();
    node.call(&["delete", "--force", &id]).success();
    Column::of("a shell", &plugin.journal, &id, &id)
}

/// Returns the table in Markdown.
fn table(columns: &[Column]) -> String {
    let row = |first: &str, cells: Vec<&str>| format!("| {first} | {} |\n", cells.join(" | "));
    let mut text = row("event", columns.iter().map(|c| c.engine).collect());
    text += &format!("|{}\n", "---|".repeat(columns.len() + 1));
    for (n, event) in EVENTS.iter().enumerate() {
        let cells = columns.iter().map(|c| c.cells[n].as_str()).collect();
        text += &row(&format!("`{event}`"), cells);
    }
    text
}

#[test]
fn the_documentation_says_what_exists_at_each_event() {
    const NAME: &str = "what exists at each event";
    let Some(go_plugin) = go_plugin(NAME).filter(|_| Containerd::has_cri(NAME)) else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/plugin-authors.md");
    for_each_suite(NAME, "dockerd", |suite| {
        let columns = [
            of_cri(suite, &go_plugin),
            of_podman_pod(suite, &go_plugin),
            of_engine::<Podman>("Podman", suite, &go_plugin),
            of_engine::<Docker>("Docker", suite, &go_plugin),
            of_ctr(suite, &go_plugin),
            of_shell(suite, &go_plugin),
        ];
        let seen = table(&columns);
        let text = fs::read_to_string(&file).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (documented, after) = rest.split_once(END).unwrap();
        if std::env::var_os("NRI_REGENERATE").is_some() {
            fs::write(&file, format!("{before}{BEGIN}\n{seen}\n{END}{after}")).unwrap();
            return;
        }
        let example = "NRI_REGENERATE=1 cargo test -p nri-integration --test engines at_each_event";
        assert_eq!(documented.trim(), seen.trim(), "{}: see `{example}`", suite.name);
    });
}
