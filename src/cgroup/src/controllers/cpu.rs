//! CPU controller: `linux.resources.cpu` without `cpus` and `mems` (see the cpuset controller). As
//! in runtimes, 0 means that a field is not set, except for `burst` and `idle`.

use super::{unified, weight};
use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, number},
};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const SHARES: &ResourceField = resource_field("cpu.shares");
const PERIOD: &ResourceField = resource_field("cpu.period");
const QUOTA: &ResourceField = resource_field("cpu.quota");
const BURST: &ResourceField = resource_field("cpu.burst");
const IDLE: &ResourceField = resource_field("cpu.idle");
const REALTIME_PERIOD: &ResourceField = resource_field("cpu.realtimePeriod");
const REALTIME_RUNTIME: &ResourceField = resource_field("cpu.realtimeRuntime");

/// All fields in the order of the writes: the period first, since the kernel checks the quota
/// against it.
const FIELDS: [&ResourceField; 7] =
    [SHARES, PERIOD, QUOTA, BURST, IDLE, REALTIME_PERIOD, REALTIME_RUNTIME];

/// The kernel's default period in microseconds.
const DEFAULT_PERIOD: i64 = 100_000;

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let value = |field: &ResourceField| {
        let is_zero_a_value = [BURST.name, IDLE.name].contains(&field.name);
        number(resources, field).filter(|n| is_zero_a_value || *n != 0)
    };
    // An idle cgroup has no weight: its file shows another value, and cannot be written.
    let is_idle = unified::idle(resources).or_else(|| value(IDLE)).is_some_and(|idle| idle != 0);
    let value =
        |field: &ResourceField| value(field).filter(|_| !is_idle || field.name != SHARES.name);
    let dir = ControllerDir::of(dirs, Controller::Cpu);
    if let ControllerDir::V2(_) = dir {
        return add_v2(value, dir, plan);
    }
    for field in FIELDS {
        if let Some(n) = value(field) {
            let n = if field.name == QUOTA.name { n.max(-1) } else { n };
            plan.write(field, dir, n.to_string(), EffectiveValue::text(n));
        }
    }
}

fn add_v2(value: impl Fn(&ResourceField) -> Option<i64>, dir: ControllerDir<'_>, plan: &mut Plan) {
    if let Some(shares) = value(SHARES).and_then(|n| u64::try_from(n).ok()) {
        let (linear, curved) = (weight::linear_cpu(shares), weight::curved_cpu(shares));
        let either = EffectiveValue::OneOf(vec![curved.to_string(), linear.to_string()]);
        plan.write(SHARES, dir, curved.to_string(), either);
    }
    let (quota, period) = (value(QUOTA), value(PERIOD));
    if quota.is_some() || period.is_some() {
        let quota = quota.filter(|q| *q > 0).map_or("max".to_owned(), |q| q.to_string());
        let text = format!("{quota} {}", period.unwrap_or(DEFAULT_PERIOD));
        plan.write(QUOTA, dir, text.clone(), EffectiveValue::text(text));
    }
    for field in [BURST, IDLE, REALTIME_PERIOD, REALTIME_RUNTIME] {
        if let Some(n) = value(field) {
            plan.write(field, dir, n.to_string(), EffectiveValue::text(n));
        }
    }
}
