//! Checks that no partly written `config.json` is left and, after a life cycle, nothing else.

use crate::host::{Host, names, original};
use nri_integration::{Bundle, Process, View, cgroups_of};
use serde_json::Value;
use std::fs;

/// Checks that `config.json` is the engine's, or the whole of the adjusted one.
pub(crate) fn check_config(host: &mut Host, bundle: &Bundle) {
    let (bytes, engine) =
        (bundle.bytes(), fs::read(original(bundle)).expect("the copy of config.json is readable"));
    let adjusted = || {
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let has = |text: &str| {
            value["process"]["env"].as_array().is_some_and(|env| env.iter().any(|v| v == text))
        };
        has("CRASH=yes") && value["linux"]["resources"]["cpu"]["shares"] == 300
    };
    if bytes != engine && !adjusted() {
        host.wrong(format!(
            "config.json is neither the engine's nor the adjusted one: {:?}",
            String::from_utf8_lossy(&bytes)
        ));
    }
}

/// Checks that only the bundle is left after a container's life cycle.
pub(crate) fn check(host: &mut Host, id: &str, bundle: &Bundle) {
    if bundle.bytes() != fs::read(original(bundle)).expect("the copy of config.json is readable") {
        host.wrong("config.json is not as its engine wrote it");
    }
    let others: Vec<_> =
        names(bundle.dir()).into_iter().filter(|name| name != "config.json").collect();
    if !others.is_empty() {
        host.wrong(format!("the bundle has more files: {others:?}"));
    }
    let known = [
        "containers",
        "pods",
        "exec",
        "control.sock",
        "nri.sock",
        "nrid.log",
        "nrid.lock",
        "start.lock",
    ];
    let left: Vec<_> = names(&host.node.state_dir())
        .into_iter()
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    if !left.is_empty() {
        host.wrong(format!("the state directory has unexpected files: {left:?}"));
    }
    host.wait_for_no_objection("after the life cycle", |_| {
        let leftover = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is = process.0 != std::process::id()
                && process.is_alive()
                && (line.contains(id) || process.cgroups().contains(id));
            is.then(|| format!("{} ({line})", process.0))
        };
        let left: Vec<_> = Process::all().iter().filter_map(leftover).collect();
        (!left.is_empty()).then(|| format!("processes left: {left:?}"))
    });
    let cgroups = cgroups_of(id);
    if !cgroups.is_empty() {
        host.wrong(format!("cgroups left: {cgroups:?}"));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(mount) = mounts.lines().find(|line| line.contains(id)) {
        host.wrong(format!("mount left: {mount}"));
    }
    check_sessions(host);
}

/// Checks that each plugin received its events in order and, if it is connected, all removals.
fn check_sessions(host: &mut Host) {
    for name in names(&host.node.journals()) {
        for why in View::of_session(&host.node.journals().join(&name)).wrong {
            host.wrong(format!("{name}: {why}"));
        }
    }
    host.wait_for_no_objection("about removals", |host| {
        let views = host.node.sessions().into_iter().map(|(_, journal)| View::of_session(&journal));
        let mut unfinished =
            views.filter(|view| view.synchronized && !view.closed).map(|view| view.unfinished());
        let neighbour = [host.neighbour.clone(), format!("pod {}", host.neighbour)];
        unfinished
            .find(|left| *left != neighbour)
            .map(|left| format!("a plugin has not received the removal of {left:?}"))
    });
}
