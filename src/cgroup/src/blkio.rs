//! Block I/O: `linux.resources.blockIO`. Where BFQ is the scheduler, its files have its name in
//! theirs.

use crate::{
    Controller, Expect, Place, Plan, Setting,
    setting::{Dir, dir, number},
    weight,
};
use serde_json::Value;
use std::path::Path;

/// Limits of a device, version 1's file for each, and its name in version 2's `io.max`.
const THROTTLES: [(&str, &str, &str); 4] = [
    ("throttleReadBpsDevice", "blkio.throttle.read_bps_device", "rbps"),
    ("throttleWriteBpsDevice", "blkio.throttle.write_bps_device", "wbps"),
    ("throttleReadIOPSDevice", "blkio.throttle.read_iops_device", "riops"),
    ("throttleWriteIOPSDevice", "blkio.throttle.write_iops_device", "wiops"),
];

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    let Some(block_io) = resources.get("blockIO").filter(|b| b.is_object()) else { return };
    match dir(place, Controller::Blkio) {
        Dir::V1(dir) => {
            weights(block_io, dir, &V1_WEIGHTS, plan);
            for (field, device, rate) in throttles(block_io) {
                let (_, file, _) = THROTTLES[field];
                // No line is left of a device whose limit is taken away.
                let shown = if rate == 0 { String::new() } else { rate.to_string() };
                let expect = Expect::Line { key: device.clone(), rest: vec![shown] };
                let name = format!("blockIO.{}", THROTTLES[field].0);
                plan.set(name, dir.join(file), format!("{device} {rate}"), expect);
            }
        }
        Dir::V2(dir) => {
            weights(block_io, dir, &V2_WEIGHTS, plan);
            for (field, device, rate) in throttles(block_io) {
                let (name, _, key) = THROTTLES[field];
                let value = if rate == 0 { "max".to_owned() } else { rate.to_string() };
                let write = format!("{device} {key}={value}");
                let expect = Expect::Word { key: device, name: key.to_owned(), value };
                plan.set(format!("blockIO.{name}"), dir.join("io.max"), write, expect);
            }
        }
        Dir::Nowhere => plan.none("blockIO"),
    }
}

/// How weights are written in a version.
struct Weights {
    /// The files of the group's own weight.
    own: &'static [&'static str],
    /// Those of the weights for devices.
    devices: &'static [&'static str],
    /// What stands before the group's own where a file has both.
    default: &'static str,
    /// What takes the weight of a device away.
    reset: &'static str,
    /// Of the leaves' weights; none in version 2.
    leaf: Option<&'static str>,
}

const V1_WEIGHTS: Weights = Weights {
    own: &["blkio.bfq.weight", "blkio.weight"],
    devices: &["blkio.bfq.weight_device", "blkio.weight_device"],
    default: "",
    reset: "0",
    leaf: Some("blkio.leaf_weight"),
};

const V2_WEIGHTS: Weights = Weights {
    own: &["io.bfq.weight", "io.weight"],
    devices: &["io.bfq.weight", "io.weight"],
    default: "default",
    reset: "default",
    leaf: None,
};

fn weights(block_io: &Value, dir: &Path, files: &Weights, plan: &mut Plan) {
    let below = |names: &[&str]| names.iter().map(|n| dir.join(n)).collect::<Vec<_>>();
    if let Some(weight) =
        number(block_io, "/weight").and_then(|w| u64::try_from(w).ok()).filter(|w| *w > 0)
    {
        plan.settings.push(Setting {
            field: "blockIO.weight".to_owned(),
            files: below(files.own),
            write: vec![weight.to_string()],
            expect: own_weight(files, weight),
            optional: false,
        });
    }
    if let Some(weight) = number(block_io, "/leafWeight").filter(|w| *w > 0) {
        match files.leaf {
            Some(file) => {
                plan.set(
                    "blockIO.leafWeight",
                    dir.join(file),
                    weight.to_string(),
                    Expect::text(weight),
                );
            }
            None => plan.none("blockIO.leafWeight"),
        }
    }
    for entry in block_io.get("weightDevice").and_then(Value::as_array).into_iter().flatten() {
        let Some(device) = device(entry) else { continue };
        let Some(weight) = number(entry, "/weight").filter(|w| *w >= 0) else { continue };
        // Of a device that has the group's own weight again no line is left.
        let (write, shown) = match weight {
            0 => (format!("{device} {}", files.reset), String::new()),
            _ => (format!("{device} {weight}"), weight.to_string()),
        };
        plan.settings.push(Setting {
            field: "blockIO.weightDevice".to_owned(),
            files: below(files.devices),
            write: vec![write],
            expect: Expect::Line { key: device, rest: vec![shown] },
            optional: false,
        });
    }
}

/// BFQ takes the weight as it is; `io.weight` has another scale, on which runtimes convert it.
fn own_weight(files: &Weights, weight: u64) -> Expect {
    if files.default.is_empty() {
        return Expect::text(weight);
    }
    Expect::Line {
        key: files.default.to_owned(),
        rest: vec![weight.to_string(), weight::io(weight).to_string()],
    }
}

/// Which of [`THROTTLES`], the device, and the rate.
fn throttles(block_io: &Value) -> impl Iterator<Item = (usize, String, u64)> {
    THROTTLES.iter().enumerate().flat_map(|(field, (name, ..))| {
        block_io.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(
            move |entry| Some((field, device(entry)?, entry.get("rate").and_then(Value::as_u64)?)),
        )
    })
}

/// `major:minor`
fn device(entry: &Value) -> Option<String> {
    let part = |name| entry.get(name).and_then(Value::as_u64);
    Some(format!("{}:{}", part("major")?, part("minor")?))
}
