//! Block I/O controller (`blkio`, or `io` in cgroup v2): `linux.resources.blockIO`. With the I/O
//! scheduler BFQ, the files of weights have other names.

use super::weight;
use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, as_number, list, number},
};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const WEIGHT: &ResourceField = resource_field("blockIO.weight");
const LEAF_WEIGHT: &ResourceField = resource_field("blockIO.leafWeight");
const WEIGHT_DEVICE: &ResourceField = resource_field("blockIO.weightDevice");

/// Fields that limit the I/O of a device, each with its key in `io.max` of cgroup v2.
const THROTTLES: [(&ResourceField, &str); 4] = [
    (resource_field("blockIO.throttleReadBpsDevice"), "rbps"),
    (resource_field("blockIO.throttleWriteBpsDevice"), "wbps"),
    (resource_field("blockIO.throttleReadIOPSDevice"), "riops"),
    (resource_field("blockIO.throttleWriteIOPSDevice"), "wiops"),
];

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let dir = ControllerDir::of(dirs, Controller::Blkio);
    if let ControllerDir::Missing = dir {
        if resources.get("blockIO").is_some_and(Value::is_object) {
            plan.add_unsupported(resource_field("blockio_class").name);
        }
        return;
    }
    add_weights(resources, dir, plan);
    for (field, key) in THROTTLES {
        for entry in list(resources, field) {
            let rate = entry.get("rate").and_then(Value::as_u64);
            let (Some(device), Some(rate)) = (device(entry), rate) else { continue };
            match dir {
                ControllerDir::V2(_) => {
                    let value = if rate == 0 { "max".to_owned() } else { rate.to_string() };
                    let text = format!("{device} {key}={value}");
                    let effective =
                        EffectiveValue::Word { key: device, name: key.to_owned(), value };
                    plan.write(field, dir, text, effective);
                }
                _ => plan.write(field, dir, format!("{device} {rate}"), line_of(device, rate)),
            }
        }
    }
}

fn add_weights(resources: &Value, dir: ControllerDir<'_>, plan: &mut Plan) {
    let is_v2 = matches!(dir, ControllerDir::V2(_));
    let unsigned = |field| number(resources, field).and_then(|w| u64::try_from(w).ok());
    if let Some(weight) = unsigned(WEIGHT).filter(|w| *w > 0) {
        let effective = if is_v2 {
            // `io.bfq.weight` has the weight itself, `io.weight` the weight on another scale.
            let rest = vec![weight.to_string(), weight::io(weight).to_string()];
            EffectiveValue::Line { key: "default".to_owned(), rest }
        } else {
            EffectiveValue::text(weight)
        };
        plan.write(WEIGHT, dir, weight.to_string(), effective);
    }
    if let Some(weight) = unsigned(LEAF_WEIGHT).filter(|w| *w > 0) {
        plan.write(LEAF_WEIGHT, dir, weight.to_string(), EffectiveValue::text(weight));
    }
    for entry in list(resources, WEIGHT_DEVICE) {
        let weight = entry.get("weight").and_then(as_number).and_then(|w| u64::try_from(w).ok());
        let (Some(device), Some(weight)) = (device(entry), weight) else { continue };
        let text = match weight {
            0 if is_v2 => format!("{device} default"),
            _ => format!("{device} {weight}"),
        };
        plan.write(WEIGHT_DEVICE, dir, text, line_of(device, weight));
    }
}

/// The effective line of a device. A value of 0 removes the limit of the device; the kernel then
/// shows no line for it.
fn line_of(device: String, value: u64) -> EffectiveValue {
    let shown = if value == 0 { String::new() } else { value.to_string() };
    EffectiveValue::Line { key: device, rest: vec![shown] }
}

/// Device numbers of an entry, as `major:minor`.
fn device(entry: &Value) -> Option<String> {
    let part = |name| entry.get(name).and_then(Value::as_u64);
    Some(format!("{}:{}", part("major")?, part("minor")?))
}
