//! `make demo`: what an engine asked for, what each plugin changed, and what the container really
//! sees, side by side.
//!
//! Nothing in the table is written down here twice: the first column is read from the bundle's
//! `config.json`, the second from the plugins' configuration, the third from the container's own
//! output. Exit code 1 if any of it does not fit.

mod lines;
mod rows;
mod setting;

use lines::Page;
use nri_integration::{
    Bundle, Node, Process, Program, Runtime, Seen, cgroups_of, runtimes, unified_cgroups,
    wait_until,
};
use std::{fs, process::ExitCode};

fn main() -> ExitCode {
    let page = Page::new();
    for (name, reason) in &runtimes().1 {
        page.result(&format!("{name} can run here"), reason, false);
    }
    for runtime in &runtimes().0 {
        adjusted(&page, runtime);
        untouched(&page, runtime);
    }
    page.end()
}

/// What a plugin hears of a container that is made, runs, and goes.
const LIFE: [&str; 10] = [
    "RunPodSandbox",
    "CreateContainer",
    "ValidateContainerAdjustment",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
    "StopContainer",
    "StopPodSandbox",
    "RemoveContainer",
    "RemovePodSandbox",
];

/// `runc 1.1.5`
fn version(runtime: &Runtime) -> String {
    let out = std::process::Command::new(&runtime.path).arg("--version").output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(runtime.name).replace(" version", "")
}

/// Two launched plugins, and containers made in two ways.
fn adjusted(page: &Page, runtime: &Runtime) {
    let cgroups = if unified_cgroups() { "cgroup v2" } else { "cgroup v1" };
    page.section(&format!("{}, {cgroups}: two plugins", version(runtime)));
    let node = Node::new(runtime);
    let setting = setting::install(&node);
    let journal = &setting.journal;
    let id = node.id("create");
    let bundle = setting::bundle(&node, &id);
    let (asked, original) = (bundle.document(), bundle.bytes());
    let none = node.nrids().is_empty();
    let created = node.create(&bundle, &id).success();
    node.call(&["start", &id]).success();
    let seen = read_probe(&created);
    page.result(
        "nrid",
        "none before the first call, one after it",
        none && node.nrids().len() == 1,
    );
    let rows = rows::all(&node, &setting, &id, &asked, &seen);
    page.table(&["setting", "engine asked", "10-adjust", "20-more", "container sees"], &rows);
    node.call(&["kill", &id, "TERM"]).success();
    journal.wait_for("StopContainer", &id);
    node.call(&["delete", &id]).success();
    journal.wait_for("RemovePodSandbox", &id);
    let heard = journal.events(&id);
    page.result("10-adjust heard", &heard.join(" "), heard == LIFE);
    page.result("after delete", "config.json is the engine's again", bundle.bytes() == original);

    let id = node.id("run");
    let bundle = setting::bundle(&node, &id);
    let asked = bundle.document();
    let mut run = node.wrapper();
    run.args(["run", "--detach", "--bundle"]).arg(bundle.dir()).arg(&id);
    let seen = read_probe(&node.run(run).success());
    let rows = rows::all(&node, &setting, &id, &asked, &seen);
    let good = rows.iter().filter(|r| r.fits).count();
    page.result(
        "through run",
        &format!("{good} of {} settings as above", rows.len()),
        good == rows.len(),
    );
    for row in rows.iter().filter(|r| !r.fits) {
        page.result(&row.cells[0], &row.cells[4], false);
    }
    leave(page, node);
}

/// Without plugins; one connects when the container runs.
fn untouched(page: &Page, runtime: &Runtime) {
    page.section(&format!("{}: no plugins", version(runtime)));
    let node = Node::new(runtime);
    let id = node.id("plain");
    let bundle: Bundle = setting::bundle(&node, &id);
    let of = |bundle: &Bundle| {
        (bundle.bytes(), fs::metadata(bundle.config()).and_then(|m| m.modified()).ok())
    };
    let before = of(&bundle);
    let created = node.create(&bundle, &id).success();
    node.call(&["start", &id]).success();
    read_probe(&created);
    page.result("config.json", "the same bytes, not written", of(&bundle) == before);
    let late = node.connect("30-late", &Program::Adjust, "");
    let heard = late.journal.events(&id);
    page.result(
        "30-late connects",
        &format!("synchronized with {id}"),
        heard.iter().any(|e| e == "Synchronize"),
    );
    late.stop();
    leave(page, node);
}

fn read_probe(created: &nri_integration::Ended) -> Seen {
    wait_until("the container's report", || {
        created.out().contains("ready=1").then(|| Seen::parse(&created.out()))
    })
}

/// Cleans up, and looks whether anything is left.
fn leave(page: &Page, node: Node) {
    let (prefix, dir) = (node.prefix().to_owned(), node.path(""));
    let dir = dir.to_str().unwrap_or_default().trim_end_matches('/').to_owned();
    node.clean_up();
    drop(node);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let names_it = |process: &Process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&dir)
    };
    let left = [
        ("processes", Process::all().iter().filter(|p| names_it(p)).count()),
        ("mounts", mounts.lines().filter(|l| l.contains(&dir)).count()),
        ("cgroups", cgroups_of(&prefix).len()),
        ("directories", usize::from(fs::exists(&dir).unwrap_or(true))),
    ];
    let text: Vec<_> = left.iter().map(|(what, n)| format!("{n} {what}")).collect();
    page.result("left behind", &text.join(", "), left.iter().all(|(_, n)| *n == 0));
}
