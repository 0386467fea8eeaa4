//! Cpuset controller: `linux.resources.cpu.cpus` and `mems`.

use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, at},
};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const LISTS: [&ResourceField; 2] = [resource_field("cpu.cpus"), resource_field("cpu.mems")];

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let dir = ControllerDir::of(dirs, Controller::Cpuset);
    for field in LISTS {
        let list = at(resources, field).and_then(Value::as_str).unwrap_or_default();
        if !list.is_empty() {
            plan.write(field, dir, list, EffectiveValue::Set(list.to_owned()));
        }
    }
}
