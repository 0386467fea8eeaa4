//! Checks that `config.json` is complete and that, after a life cycle, only the bundle is left.

use crate::host::{Host, names, original};
use nri_integration::{Bundle, Process, View, cgroups_of};
use serde_json::Value;
use std::fs;

/// Whether the runtime got the complete adjusted `config.json`.
pub(crate) fn is_adjusted(host: &Host, id: &str) -> bool {
    let Some(dir) = host.node.own_bundle(id) else { return false };
    let text = fs::read(dir.join("config.json")).unwrap_or_default();
    let value: Value = serde_json::from_slice(&text).unwrap_or_default();
    let has_variable = |text: &str| {
        value["process"]["env"].as_array().is_some_and(|env| env.iter().any(|v| v == text))
    };
    has_variable("CRASH=yes") && value["linux"]["resources"]["cpu"]["shares"] == 300
}

/// Checks that the engine's bundle is as the engine has made it.
pub(crate) fn check_bundle(host: &mut Host, bundle: &Bundle) {
    if bundle.bytes() != fs::read(original(bundle)).expect("the copy of config.json is readable") {
        host.report_defect("config.json differs from the one that the engine wrote");
    }
    let others: Vec<_> =
        names(bundle.dir()).into_iter().filter(|name| name != "config.json").collect();
    if !others.is_empty() {
        host.report_defect(format!("the bundle has files besides config.json: {others:?}"));
    }
}

/// Checks that only the bundle is left after a container's life cycle.
pub(crate) fn check(host: &mut Host, id: &str, bundle: &Bundle) {
    check_bundle(host, bundle);
    let known = [
        "containers",
        "pods",
        "exec",
        "bundles",
        "spare",
        "control.sock",
        "nri.sock",
        "plugins",
        "nrid.log",
        "audit.log",
        "nrid.lock",
        "nrid.life",
        "last-good-configuration.json",
        "start.lock",
        "external-plugins.json",
        "followed",
    ];
    let left: Vec<_> = names(&host.node.state_dir())
        .into_iter()
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    if !left.is_empty() {
        host.report_defect(format!("the state directory has unexpected files: {left:?}"));
    }
    host.wait_until_no_defect("after the life cycle", |host| {
        host.node.own_bundle(id).map(|dir| format!("bundle left: {}", dir.display()))
    });
    host.wait_until_no_defect("after the life cycle", |_| {
        let leftover = |process: &Process| {
            let line = fs::read(format!("/proc/{}/cmdline", process.0)).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let is_leftover = process.0 != std::process::id()
                && process.is_alive()
                && (line.contains(id) || process.cgroups().contains(id));
            is_leftover.then(|| format!("{} ({line})", process.0))
        };
        let left: Vec<_> = Process::all().iter().filter_map(leftover).collect();
        (!left.is_empty()).then(|| format!("processes left: {left:?}"))
    });
    let cgroups = cgroups_of(id);
    if !cgroups.is_empty() {
        host.report_defect(format!("cgroups left: {cgroups:?}"));
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if let Some(mount) = mounts.lines().find(|line| line.contains(id)) {
        host.report_defect(format!("mount left: {mount}"));
    }
    check_sessions(host);
}

/// Checks that each plugin received its events in order, and that each connected plugin received
/// the removal of all containers and pods except the neighbor and its pod.
fn check_sessions(host: &mut Host) {
    for name in names(&host.node.journals()) {
        for defect in View::of_session(&host.node.journals().join(&name)).out_of_order {
            host.report_defect(format!("{name}: {defect}"));
        }
    }
    host.wait_until_no_defect("after the life cycle", |host| {
        let views = host.node.sessions().into_iter().map(|(_, journal)| View::of_session(&journal));
        let mut unfinished =
            views.filter(|view| view.synchronized && !view.closed).map(|view| view.unfinished());
        let neighbor = [host.neighbor.clone(), format!("pod {}", host.neighbor)];
        unfinished
            .find(|ids| *ids != neighbor)
            .map(|ids| format!("a plugin knows {ids:?} instead of {neighbor:?}"))
    });
}
