//! Memory controller: `linux.resources.memory`. A limit of 0 means not set, -1 unlimited.

use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, at, number},
};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const LIMIT: &ResourceField = resource_field("memory.limit");
const SWAP: &ResourceField = resource_field("memory.swap");
const RESERVATION: &ResourceField = resource_field("memory.reservation");
const KERNEL: &ResourceField = resource_field("memory.kernel");
const KERNEL_TCP: &ResourceField = resource_field("memory.kernelTCP");
const SWAPPINESS: &ResourceField = resource_field("memory.swappiness");
const DISABLE_OOM_KILLER: &ResourceField = resource_field("memory.disableOOMKiller");
const USE_HIERARCHY: &ResourceField = resource_field("memory.useHierarchy");

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let dir = ControllerDir::of(dirs, Controller::Memory);
    // A field without a file is reported as unsupported, even if its value is 0.
    let bytes = |field: &ResourceField| {
        number(resources, field).filter(|n| *n != 0 || dir.files(field).is_none())
    };
    if let ControllerDir::V2(_) = dir {
        add_v2(bytes, dir, plan);
    } else {
        // The kernel refuses a memory limit above the limit of memory and swap together. In this
        // order it accepts both writes if both limits decrease. If both increase, it refuses the
        // memory limit until the second write is done; the writer repeats failed writes.
        for field in [LIMIT, SWAP, RESERVATION] {
            if let Some(n) = bytes(field) {
                plan.write(field, dir, n.max(-1).to_string(), limit(n));
            }
        }
    }
    if let Some(n) = bytes(KERNEL_TCP) {
        plan.write(KERNEL_TCP, dir, n.max(-1).to_string(), limit(n));
    }
    if let Some(n) = number(resources, SWAPPINESS) {
        plan.write(SWAPPINESS, dir, n.to_string(), EffectiveValue::text(n));
    }
    // cgroup v2 has no files for these flags: its OOM killer and its hierarchy are always on. Only
    // a flag that requests the opposite is unsupported.
    for (field, key, always) in
        [(DISABLE_OOM_KILLER, Some("oom_kill_disable"), false), (USE_HIERARCHY, None, true)]
    {
        let Some(flag) = at(resources, field).and_then(Value::as_bool) else { continue };
        if let ControllerDir::V1(_) = dir {
            let text = u8::from(flag).to_string();
            let effective = match key {
                Some(key) => EffectiveValue::Line { key: key.to_owned(), rest: vec![text.clone()] },
                None => EffectiveValue::text(&text),
            };
            plan.write(field, dir, text, effective);
        } else if flag != always {
            plan.add_unsupported(field.name);
        }
    }
    // Kernels since 5.16 ignore the kernel memory limit, so reading it back proves nothing.
    if number(resources, KERNEL).is_some_and(|n| n != 0) {
        plan.add_unsupported(KERNEL.name);
    }
}

fn add_v2(bytes: impl Fn(&ResourceField) -> Option<i64>, dir: ControllerDir<'_>, plan: &mut Plan) {
    let text = |n: i64| if n < 0 { "max".to_owned() } else { n.to_string() };
    if let Some(n) = bytes(LIMIT) {
        plan.write(LIMIT, dir, text(n), limit(n));
    }
    // `swap` of the OCI config limits memory and swap together, `memory.swap.max` swap alone.
    let swap = match (bytes(SWAP), bytes(LIMIT)) {
        (Some(both), _) if both < 0 => Some(-1),
        (Some(both), Some(limit)) if limit > 0 => Some(both.saturating_sub(limit).max(0)),
        (None, Some(limit)) if limit < 0 => Some(-1),
        _ => None,
    };
    if let Some(n) = swap {
        plan.write(SWAP, dir, text(n), limit(n));
        // A kernel without swap accounting does not have the file. That is an error only if the
        // resources have a limit of swap.
        if let Some(last) = plan.writes.last_mut() {
            last.is_optional = bytes(SWAP).is_none();
        }
    }
    if let Some(n) = bytes(RESERVATION) {
        plan.write(RESERVATION, dir, text(n), limit(n));
    }
}

fn limit(bytes: i64) -> EffectiveValue {
    EffectiveValue::Bytes(u64::try_from(bytes).ok())
}
