//! Pids controller: `linux.resources.pids.limit`. 0 means «not given», below it «no limit».

use crate::{
    Controller, Expect, Place, Plan,
    setting::{Dir, dir, number},
};
use serde_json::Value;

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    let Some(limit) = number(resources, "/pids/limit").filter(|n| *n != 0) else { return };
    let text = if limit < 0 { "max".to_owned() } else { limit.to_string() };
    match dir(place, Controller::Pids) {
        Dir::V1(dir) | Dir::V2(dir) => {
            plan.set("pids.limit", dir.join("pids.max"), text.clone(), Expect::text(text))
        }
        Dir::Nowhere => plan.none("pids.limit"),
    }
}
