//! `make demo`: shows side by side the values that an engine requested, that each plugin set, and
//! that the container sees.
//!
//! Each column is read from a source of its own: the bundle's `config.json`, the plugins'
//! configuration, the container's output. The exit code is 1 if the container sees a value other
//! than the one set last, or `nrictl explain` ends with another one.

mod explained;
mod page;
mod rows;
mod scenario;

use nri_integration::{
    Bundle, Node, Process, Program, Report, Runtime, cgroups_of, is_cgroup_v2, life_cycle,
    runtimes, wait_until,
};
use page::Page;
use std::{fs, process::ExitCode};

fn main() -> ExitCode {
    let page = Page::new();
    page.text(
        "Containers are created by the wrapper, called as an engine calls it. NRI plugins change\n\
         them on the way to the real runtime. \"ok\": the container sees the value set last.",
    );
    for (name, reason) in &runtimes().1 {
        page.result(&format!("{name} cannot run a container on this machine"), reason, false);
    }
    for runtime in &runtimes().0 {
        with_plugins(&page, runtime);
        without_plugins(&page, runtime);
    }
    page.end()
}

/// Name and version of a runtime, such as `runc 1.1.5`.
fn version(runtime: &Runtime) -> String {
    let out = std::process::Command::new(&runtime.path).arg("--version").output();
    let text = out.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or(runtime.name).replace(" version", "")
}

/// Shows one container made by `create` and one by `run`, adjusted by two plugins that nrid
/// launches.
fn with_plugins(page: &Page, runtime: &Runtime) {
    let cgroups = if is_cgroup_v2() { "cgroup v2" } else { "cgroup v1" };
    page.section(&format!("{}, {cgroups}, with two plugins", version(runtime)));
    let node = Node::new(runtime);
    let scenario = scenario::install(&node);
    let journal = &scenario.journal;
    let id = node.id("create");
    let bundle = scenario::bundle(&node, &id);
    let (requested, original) = (bundle.oci_config(), bundle.bytes());
    let had_no_nrid = node.nrids().is_empty();
    let created = node.create(&bundle, &id).success();
    node.call(&["start", &id]).success();
    let seen = read_probe(&created);
    page.result(
        "nrid",
        "started by the first call of the wrapper",
        had_no_nrid && node.nrids().len() == 1,
    );
    let rows = rows::all(&node, &scenario, &id, &requested, &seen);
    page.table(&["", "engine requests", "10-adjust sets", "20-more sets", "container sees"], &rows);
    node.call(&["kill", &id, "TERM"]).success();
    journal.wait_for("StopContainer", &id);
    node.call(&["delete", &id]).success();
    journal.wait_for("RemovePodSandbox", &id);
    let events = journal.events(&id);
    let in_order = events == life_cycle(&[]);
    page.list("events that 10-adjust received", &events, in_order);
    page.result("config.json after delete", "restored", bundle.bytes() == original);
    // The audit log is written shortly after the events.
    let explained = wait_until("the removal in the audit log", || {
        Some(node.ctl(&["explain", &id]).out()).filter(|text| text.contains("  removed\n"))
    });
    let by_both = ["10-adjust", "20-more"].iter().all(|plugin| explained.contains(plugin));
    page.lines("nrictl explain, after the delete", &explained, by_both);
    let explained = serde_json::from_str(&node.ctl(&["explain", "--json", &id]).success().out());
    let (equal, different) =
        explained::compare(&explained.expect("nrictl explain prints JSON"), &rows);
    let count = format!("{} fields as the container sees them", equal.len());
    page.result("the last values of explain", &count, different.is_empty() && !equal.is_empty());
    for text in &different {
        page.result("explain", text, false);
    }

    let id = node.id("run");
    let bundle = scenario::bundle(&node, &id);
    let requested = bundle.oci_config();
    let mut run = node.wrapper();
    run.args(["run", "--detach", "--bundle"]).arg(bundle.dir()).arg(&id);
    let seen = read_probe(&node.run(run).success());
    let rows = rows::all(&node, &scenario, &id, &requested, &seen);
    let matching = rows.iter().filter(|r| r.matches).count();
    page.result(
        "a second container, made by run",
        &format!("{matching} of {} values as above", rows.len()),
        matching == rows.len(),
    );
    for row in rows.iter().filter(|r| !r.matches) {
        page.result(&row.cells[0], &row.cells[4], false);
    }
    clean_up(page, node);
}

/// Shows a container that was created without plugins, and a plugin that connects later.
fn without_plugins(page: &Page, runtime: &Runtime) {
    page.section(&format!("{}, without plugins", version(runtime)));
    let node = Node::new(runtime);
    let id = node.id("plain");
    let bundle: Bundle = scenario::bundle(&node, &id);
    let snapshot = |bundle: &Bundle| {
        (bundle.bytes(), fs::metadata(bundle.config()).and_then(|m| m.modified()).ok())
    };
    let before = snapshot(&bundle);
    let created = node.create(&bundle, &id).success();
    node.call(&["start", &id]).success();
    read_probe(&created);
    page.result("config.json", "not written", snapshot(&bundle) == before);
    let late = node.connect("30-late", &Program::Adjust, "");
    let events = late.journal.events(&id);
    page.result(
        "plugin 30-late, connected now",
        "synchronized with the running container",
        events.iter().any(|e| e == "Synchronize"),
    );
    late.stop();
    clean_up(page, node);
}

/// Waits for the report of the probe in a container's output, and parses it.
fn read_probe(created: &nri_integration::Ended) -> Report {
    wait_until("the container's report", || {
        created.out().contains("ready=1").then(|| Report::parse(&created.out()))
    })
}

/// Cleans up and checks that no process, mount, cgroup or directory is left.
fn clean_up(page: &Page, node: Node) {
    let (prefix, dir) = (node.prefix().to_owned(), node.path(""));
    let dir = dir.to_str().unwrap_or_default().trim_end_matches('/').to_owned();
    node.clean_up();
    drop(node);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let is_ours = |process: &Process| {
        let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&dir)
    };
    let left = [
        ("processes", Process::all().iter().filter(|p| is_ours(p)).count()),
        ("mounts", mounts.lines().filter(|l| l.contains(&dir)).count()),
        ("cgroups", cgroups_of(&prefix).len()),
        ("directories", usize::from(fs::exists(&dir).unwrap_or(true))),
    ];
    let text: Vec<_> = left.iter().map(|(what, n)| format!("{n} {what}")).collect();
    page.result("left after the clean-up", &text.join(", "), left.iter().all(|(_, n)| *n == 0));
}
