//! Devices controller: `linux.resources.devices`, whose rules are read back but not written.
//!
//! In cgroup v1 the kernel lists the effective rules, but not their order. So only the last rule
//! for a device is checked, and only if it allows access: the kernel's list must then contain it.
//! In cgroup v2 the rules are an eBPF program that the runtime loads, and are not checked.

use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, list},
    write::CgroupWrite,
};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const RULES: &ResourceField = resource_field("resources.devices");

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let dir = ControllerDir::of(dirs, Controller::Devices);
    let Some((dir, names)) = dir.files(RULES) else { return };
    let rules: Vec<_> = list(resources, RULES).map(Rule::of).collect();
    for (index, rule) in rules.iter().enumerate() {
        // Only the last rule for a device counts.
        let is_overruled = rules[index + 1..]
            .iter()
            .any(|later| later.device == rule.device || later.is_for_all_numbers());
        if !rule.allow || is_overruled || rule.is_for_all_numbers() {
            continue;
        }
        plan.writes.push(CgroupWrite {
            field: RULES.name.to_owned(),
            files: names.iter().map(|name| dir.join(name)).collect(),
            // Only the runtime writes rules, since the order of all rules counts.
            texts: Vec::new(),
            effective: EffectiveValue::Device {
                device: rule.device.clone(),
                access: rule.access.clone(),
            },
            is_optional: false,
        });
    }
}

/// A device rule.
struct Rule {
    /// Type and numbers, as the kernel writes them: `c 1:3`.
    device: String,
    allow: bool,
    /// Letters of `rwm`.
    access: String,
}

impl Rule {
    fn of(rule: &Value) -> Self {
        let kind = match rule.get("type").and_then(Value::as_str).unwrap_or("a") {
            kind @ ("b" | "c") => kind,
            _ => "a",
        };
        let number = |name| rule.get(name).and_then(Value::as_i64).filter(|n| *n >= 0);
        let text = |name| number(name).map_or_else(|| "*".to_owned(), |n| n.to_string());
        Self {
            device: format!("{kind} {}:{}", text("major"), text("minor")),
            allow: rule.get("allow").and_then(Value::as_bool).unwrap_or(false),
            access: rule.get("access").and_then(Value::as_str).unwrap_or("rwm").to_owned(),
        }
    }

    fn is_for_all_numbers(&self) -> bool {
        self.device.ends_with("*:*")
    }
}
