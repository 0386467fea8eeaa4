//! Memory controller: `linux.resources.memory`. A limit of 0 means «not given», -1 «no limit».

use crate::{
    Controller, Expect, Place, Plan,
    setting::{Dir, dir, number},
};
use serde_json::Value;
use std::path::Path;

/// Fields of bytes, and version 1's files for them. The limit comes before that of memory and swap
/// together, which is never below; where both rise, the writer tries again in the other order.
const V1: [(&str, &str); 4] = [
    ("limit", "memory.limit_in_bytes"),
    ("swap", "memory.memsw.limit_in_bytes"),
    ("reservation", "memory.soft_limit_in_bytes"),
    ("kernelTCP", "memory.kmem.tcp.limit_in_bytes"),
];

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    let given = |field: &str| number(resources, &format!("/memory/{field}"));
    let bytes = |field: &str| given(field).filter(|n| *n != 0);
    let flag =
        |field: &str| resources.pointer(&format!("/memory/{field}")).and_then(Value::as_bool);
    match dir(place, Controller::Memory) {
        Dir::V1(dir) => {
            for (field, file) in V1 {
                if let Some(n) = bytes(field) {
                    plan.set(
                        format!("memory.{field}"),
                        dir.join(file),
                        n.max(-1).to_string(),
                        limit(n),
                    );
                }
            }
            if let Some(n) = given("swappiness") {
                plan.set(
                    "memory.swappiness",
                    dir.join("memory.swappiness"),
                    n.to_string(),
                    Expect::text(n),
                );
            }
            if let Some(off) = flag("disableOOMKiller") {
                let text = u8::from(off).to_string();
                let expect =
                    Expect::Line { key: "oom_kill_disable".to_owned(), rest: vec![text.clone()] };
                plan.set("memory.disableOOMKiller", dir.join("memory.oom_control"), text, expect);
            }
            if let Some(on) = flag("useHierarchy") {
                let text = u8::from(on).to_string();
                plan.set(
                    "memory.useHierarchy",
                    dir.join("memory.use_hierarchy"),
                    text.clone(),
                    Expect::text(text),
                );
            }
        }
        Dir::V2(dir) => v2(&bytes, &given, dir, plan),
        Dir::Nowhere => {
            for field in ["limit", "swap", "reservation", "kernelTCP", "swappiness"] {
                if given(field).is_some() {
                    plan.none(format!("memory.{field}"));
                }
            }
        }
    }
    // The kernel dropped it (5.16 and before): no value can be read back that means anything.
    if bytes("kernel").is_some() {
        plan.none("memory.kernel");
    }
}

fn v2(
    bytes: &impl Fn(&str) -> Option<i64>,
    given: &impl Fn(&str) -> Option<i64>,
    dir: &Path,
    plan: &mut Plan,
) {
    let text = |n: i64| if n < 0 { "max".to_owned() } else { n.to_string() };
    if let Some(n) = bytes("limit") {
        plan.set("memory.limit", dir.join("memory.max"), text(n), limit(n));
    }
    // Version 2 counts swap by itself.
    let swap = match (bytes("swap"), bytes("limit")) {
        (Some(both), _) if both < 0 => Some(-1),
        (Some(both), Some(limit)) if limit > 0 => Some(both.saturating_sub(limit).max(0)),
        (None, Some(limit)) if limit < 0 => Some(-1),
        _ => None,
    };
    if let Some(n) = swap {
        let expect = limit(n);
        plan.set("memory.swap", dir.join("memory.swap.max"), text(n), expect);
        // A kernel without swap accounting does not have it.
        if let Some(last) = plan.settings.last_mut() {
            last.optional = bytes("swap").is_none();
        }
    }
    if let Some(n) = bytes("reservation") {
        plan.set("memory.reservation", dir.join("memory.low"), text(n), limit(n));
    }
    for field in ["swappiness", "kernelTCP"] {
        if given(field).is_some() {
            plan.none(format!("memory.{field}"));
        }
    }
}

fn limit(bytes: i64) -> Expect {
    Expect::Bytes(u64::try_from(bytes).ok())
}
