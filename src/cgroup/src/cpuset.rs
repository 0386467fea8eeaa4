//! Cpuset controller: `linux.resources.cpu.cpus` and `mems`. The files have the same names in both
//! versions.

use crate::{
    Controller, Expect, Place, Plan,
    setting::{Dir, dir},
};
use serde_json::Value;

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    for (field, file) in [("cpus", "cpuset.cpus"), ("mems", "cpuset.mems")] {
        let list =
            resources.pointer(&format!("/cpu/{field}")).and_then(Value::as_str).unwrap_or_default();
        if list.is_empty() {
            continue;
        }
        match dir(place, Controller::Cpuset) {
            Dir::V1(dir) | Dir::V2(dir) => {
                plan.set(
                    format!("cpu.{field}"),
                    dir.join(file),
                    list,
                    Expect::Set(list.to_owned()),
                );
            }
            Dir::Nowhere => plan.none(format!("cpu.{field}")),
        }
    }
}
