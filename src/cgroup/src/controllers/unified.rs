//! Conversion of `linux.resources.unified`, which maps names of cgroup v2 files to their values.

use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{Plan, at},
    write::CgroupWrite,
};
use nri_api::{ResourceField, entry_name, resource_field};
use serde_json::Value;
use std::path::Path;

const FILES: &ResourceField = resource_field("unified");
const IDLE: &ResourceField = resource_field("cpu.idle");

/// The directories of a file. Of cgroup v1 is only `cpu.idle`: see `nri_spec::idle_entry_to_field`.
/// In the cgroup that crun makes below a systemd scope, it has no effect on other containers, but
/// keeps crun from setting a weight.
fn dirs_of<'a>(dirs: &'a CgroupDirs, name: &str) -> Vec<&'a Path> {
    let (own, is_idle) = (dirs.unified(), IDLE.v2.contains(&name));
    let other = if own.is_some() { dirs.scope() } else { dirs.v1(Controller::Cpu) };
    other.filter(|_| is_idle).into_iter().chain(own).collect()
}

/// The value of `cpu.idle` that an entry sets.
pub(crate) fn idle(resources: &Value) -> Option<i64> {
    let text = at(resources, FILES)?.get(IDLE.v2[0])?.as_str()?;
    text.trim().parse().ok()
}

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    for (name, value) in at(resources, FILES).and_then(Value::as_object).into_iter().flatten() {
        let field = entry_name(FILES.name, name);
        // Only files of controllers (not `cgroup.*`) in the container's own cgroup are accepted.
        let is_file = !name.is_empty() && !name.contains('/') && !name.starts_with("cgroup.");
        let dirs = dirs_of(dirs, name);
        let Some(value) = value.as_str().filter(|_| is_file && !dirs.is_empty()) else {
            plan.add_unsupported(field);
            continue;
        };
        let lines: Vec<_> = value.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        for (dir, line) in dirs.iter().flat_map(|dir| lines.iter().map(move |line| (dir, *line))) {
            for (index, effective) in effective(name, line).into_iter().enumerate() {
                plan.writes.push(CgroupWrite {
                    field: field.clone(),
                    files: vec![dir.join(name)],
                    // The line is written once, however many of its words are checked.
                    texts: if index == 0 { vec![line.to_owned()] } else { Vec::new() },
                    effective,
                    is_optional: false,
                });
            }
        }
    }
}

/// Returns what the kernel shows in the file `name` once `line` is effective. If the line sets
/// several `key=value` words, each word is a separate value.
fn effective(name: &str, line: &str) -> Vec<EffectiveValue> {
    match line.split_once(char::is_whitespace) {
        Some((key, rest)) if key.contains(':') && rest.contains('=') => {
            let word = |word: &str| {
                let (name, value) = word.split_once('=')?;
                Some(EffectiveValue::Word {
                    key: key.to_owned(),
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
            };
            rest.split_whitespace().filter_map(word).collect()
        }
        Some((key, rest)) if key.contains(':') => {
            vec![EffectiveValue::Line { key: key.to_owned(), rest: vec![rest.trim().to_owned()] }]
        }
        _ if name.starts_with("cpuset.") && line.starts_with(|c: char| c.is_ascii_digit()) => {
            vec![EffectiveValue::Set(line.to_owned())]
        }
        _ if name.starts_with("memory.") => match (line, line.parse::<u64>()) {
            ("max", _) => vec![EffectiveValue::Bytes(None)],
            (_, Ok(bytes)) => vec![EffectiveValue::Bytes(Some(bytes))],
            _ => vec![EffectiveValue::text(line)],
        },
        _ => vec![EffectiveValue::text(line)],
    }
}
