//! CPU controller: `linux.resources.cpu` but for the cpuset. Zeros mean «not given», as they do to
//! the runtimes.

use crate::{
    Controller, Expect, Place, Plan,
    setting::{Dir, dir, number},
    weight,
};
use serde_json::Value;
use std::path::Path;

/// Without one the kernel has this.
const DEFAULT_PERIOD: i64 = 100_000;

/// Fields, and version 1's files for them.
const V1: [(&str, &str); 7] = [
    ("shares", "cpu.shares"),
    // The period first: a quota is checked against it.
    ("period", "cpu.cfs_period_us"),
    ("quota", "cpu.cfs_quota_us"),
    ("burst", "cpu.cfs_burst_us"),
    ("idle", "cpu.idle"),
    ("realtimePeriod", "cpu.rt_period_us"),
    ("realtimeRuntime", "cpu.rt_runtime_us"),
];

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    let given = |field: &str| {
        // A burst or an idle of 0 is a value.
        let keeps_zero = matches!(field, "burst" | "idle");
        number(resources, &format!("/cpu/{field}")).filter(|n| keeps_zero || *n != 0)
    };
    match dir(place, Controller::Cpu) {
        Dir::V1(dir) => {
            for (field, file) in V1 {
                if let Some(n) = given(field) {
                    let n = if field == "quota" { n.max(-1) } else { n };
                    plan.set(
                        format!("cpu.{field}"),
                        dir.join(file),
                        n.to_string(),
                        Expect::text(n),
                    );
                }
            }
        }
        Dir::V2(dir) => v2(&given, dir, plan),
        Dir::Nowhere => {
            V1.iter()
                .filter(|(field, _)| given(field).is_some())
                .for_each(|(field, _)| plan.none(format!("cpu.{field}")));
        }
    }
}

fn v2(given: &impl Fn(&str) -> Option<i64>, dir: &Path, plan: &mut Plan) {
    let idle = given("idle");
    if let Some(shares) = given("shares").and_then(|n| u64::try_from(n).ok())
        // A group that is idle has no weight.
        && idle.is_none_or(|idle| idle == 0)
    {
        let (linear, curved) = (weight::linear_cpu(shares), weight::curved_cpu(shares));
        let either = Expect::OneOf(vec![curved.to_string(), linear.to_string()]);
        plan.set("cpu.shares", dir.join("cpu.weight"), curved.to_string(), either);
    }
    if given("quota").is_some() || given("period").is_some() {
        let quota = given("quota").filter(|q| *q > 0).map_or("max".to_owned(), |q| q.to_string());
        let text = format!("{quota} {}", given("period").unwrap_or(DEFAULT_PERIOD));
        plan.set("cpu.quota", dir.join("cpu.max"), text.clone(), Expect::text(text));
    }
    if let Some(burst) = given("burst") {
        plan.set("cpu.burst", dir.join("cpu.max.burst"), burst.to_string(), Expect::text(burst));
    }
    if let Some(idle) = idle {
        plan.set("cpu.idle", dir.join("cpu.idle"), idle.to_string(), Expect::text(idle));
    }
    for field in ["realtimePeriod", "realtimeRuntime"] {
        if given(field).is_some() {
            plan.none(format!("cpu.{field}"));
        }
    }
}
