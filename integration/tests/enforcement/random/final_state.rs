//! Checks the final state of a run: the kernel, the runtime's state and `nrid`'s records have the
//! same value of each field, and one of the last updates of the field set this value.

use super::history::{History, Key};
use crate::table::named;
use nri_integration::Node;
use serde_json::Value;
use std::{collections::HashMap, fs, path::PathBuf};

/// Fields whose value runc records: name of the field, and key below `config.cgroups` in runc's
/// `state.json`.
const RUNC_KEYS: [(&str, &str); 7] = [
    ("memory.limit", "memory"),
    ("memory.reservation", "memory_reservation"),
    ("memory.swap", "memory_swap"),
    ("cpu.shares", "cpu_shares"),
    ("cpu.quota", "cpu_quota"),
    ("cpu.cpus", "cpuset_cpus"),
    ("pids.limit", "pids_limit"),
];

/// Checks the fields of all containers.
pub(super) fn check(node: &Node, ids: &[String], history: &History, fields: &[&'static str]) {
    let (records, owners) = (records(node), owners(node));
    let mut differences = Vec::new();
    for (n, id) in ids.iter().enumerate() {
        let record = &records[id.as_str()];
        let state = (node.runtime().name == "runc").then(|| runc_state(node, id));
        for name in fields {
            let owner = owners[&(id.clone(), (*name).to_owned())].as_deref();
            differences.extend(difference(
                node,
                id,
                Key(n, name),
                record,
                state.as_ref(),
                owner,
                history,
            ));
        }
    }
    assert!(
        differences.is_empty(),
        "{} fields with a wrong final state, such as\n{}",
        differences.len(),
        differences[..differences.len().min(5)].join("\n\n")
    );
}

/// Compares kernel, record, runtime and history of a field. Returns a description of all
/// differences.
fn difference(
    node: &Node,
    id: &str,
    key: Key,
    record: &Value,
    state: Option<&Value>,
    owner: Option<&str>,
    history: &History,
) -> Option<String> {
    let field = named(key.1);
    let kernel = field.read(node, id).unwrap_or_default();
    let recorded = field.value_in(&record["effective"]).unwrap_or_default();
    let last = history.last(key);
    let values = |n: &usize| history.op(*n).writes[&key].clone();
    let mut wrong = Vec::new();
    if !history.expected(key, &recorded).contains(&kernel) {
        wrong.push(format!("nrid recorded {recorded}"));
    }
    let setters: Vec<usize> = last.iter().copied().filter(|n| values(n) == recorded).collect();
    if setters.is_empty() {
        wrong.push(format!("none of the last updates set the recorded {recorded}"));
    }
    if let (Some(state), Some((_, name))) =
        (state, RUNC_KEYS.iter().find(|(name, _)| *name == key.1))
        && state[name] != recorded
    {
        wrong.push(format!("runc recorded {}", state[name]));
    }
    let requested = field.value_in(&record["requested"]).unwrap_or_default();
    let requested_last = history.last_requested(key);
    if !requested_last.contains(&&requested) {
        wrong.push(format!(
            "nrid recorded the engine's request {requested} instead of one of {requested_last:?}"
        ));
    }
    let reported = field.value_in(&record["container"]["linux"]["resources"]).unwrap_or_default();
    if reported != recorded {
        wrong.push(format!("nrid reports {reported} to plugins"));
    }
    // An update that repeats the current value does not change the owner, so the owner is unknown
    // if a field has repeated values.
    if setters.iter().all(|n| history.owner(*n, key) != owner)
        && !super::plan::REPEATED.contains(&key.1)
    {
        wrong.push(format!("nrid recorded the owner {owner:?}"));
    }
    if wrong.is_empty() {
        return None;
    }
    let start = setters.first().or(last.first()).map(|n| history.op(*n).start)?;
    let timeline = history.timeline(key, start);
    Some(format!("{key:?}: the kernel has {kernel:?}; {}\n{timeline}", wrong.join("; ")))
}

/// Reads `nrid`'s records of containers, by their ids.
fn records(node: &Node) -> HashMap<String, Value> {
    let parse = |file: PathBuf| {
        let record: Value = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
        Some((record["key"]["id"].as_str()?.to_owned(), record))
    };
    node.records("containers").into_iter().filter_map(parse).collect()
}

/// Reads `config.cgroups` of runc's `state.json`.
fn runc_state(node: &Node, id: &str) -> Value {
    let file = node.root().join(id).join("state.json");
    let text = fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    serde_json::from_slice::<Value>(&text).expect("runc writes JSON")["config"]["cgroups"].clone()
}

/// Reads the owner of each field from `nrictl verify`, by container id and field name.
fn owners(node: &Node) -> HashMap<(String, String), Option<String>> {
    let report: Value = serde_json::from_str(&node.ctl(&["verify", "--all", "--json"]).out())
        .expect("nrictl prints JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut owners = HashMap::new();
    for container in report["containers"].as_array().expect("containers is a list") {
        for field_report in container["settings"].as_array().expect("settings is a list") {
            let field =
                text(&field_report["field"]).replace("hugepageLimits[2MB]", "hugepageLimits");
            owners.insert(
                (text(&container["id"]), field),
                field_report["owner"].as_str().map(str::to_owned),
            );
        }
    }
    owners
}
