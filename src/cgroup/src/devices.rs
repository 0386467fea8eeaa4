//! Devices controller: `linux.resources.devices`. In version 1 the rules that are in force can be
//! read, but not in which order they came; so what is allowed last for a device must be there, and
//! what is denied last must not. In version 2 it is a program of the runtime's.

use crate::{Controller, Expect, Place, Plan, Setting};
use serde_json::Value;

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    let Some(dir) = place.v1(Controller::Devices) else { return };
    let rules: Vec<_> = resources
        .get("devices")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(rule)
        .collect();
    for (index, (device, access)) in rules.iter().enumerate() {
        // A later rule for the same devices, or for all, is the one that counts.
        let overruled =
            rules[index + 1..].iter().any(|(later, _)| later == device || later.ends_with("*:*"));
        let (Some(access), false) = (access, overruled || device.ends_with("*:*")) else {
            continue;
        };
        plan.settings.push(Setting {
            field: "devices".to_owned(),
            files: vec![dir.join("devices.list")],
            // The runtime's to set: the order of all rules together is what counts.
            write: Vec::new(),
            expect: Expect::Device { device: device.clone(), access: access.clone() },
            optional: false,
        });
    }
}

/// `c 1:3`, and what is allowed; none if it is denied.
fn rule(rule: &Value) -> Option<(String, Option<String>)> {
    let kind = match rule.get("type").and_then(Value::as_str).unwrap_or("a") {
        kind @ ("b" | "c") => kind,
        _ => "a",
    };
    let number = |name| rule.get(name).and_then(Value::as_i64).filter(|n| *n >= 0);
    let text = |name| number(name).map_or_else(|| "*".to_owned(), |n| n.to_string());
    let access = rule.get("access").and_then(Value::as_str).unwrap_or("rwm").to_owned();
    let allow = rule.get("allow").and_then(Value::as_bool).unwrap_or(false);
    Some((format!("{kind} {}:{}", text("major"), text("minor")), allow.then_some(access)))
}
