//! Pids controller: `linux.resources.pids.limit`. 0 means not set, a negative limit unlimited.

use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, number},
};
use nri_api::{ResourceField, resource_field};
use serde_json::Value;

const LIMIT: &ResourceField = resource_field("pids.limit");

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let Some(limit) = number(resources, LIMIT).filter(|n| *n != 0) else { return };
    let text = if limit < 0 { "max".to_owned() } else { limit.to_string() };
    let dir = ControllerDir::of(dirs, Controller::Pids);
    plan.write(LIMIT, dir, text.clone(), EffectiveValue::text(text));
}
