//! Resources objects of `update --resources`: OCI to NRI, and NRI merged into OCI.
//!
//! Unlike an adjustment, a merge sets exactly the given fields: a memory limit does not also set
//! swap, and zeros are values.

use crate::context::ApplyContext;
use crate::error::ApplyError;
use crate::json::read::{Object, Read, object};
use crate::json::wrong_type::WrongType;
use crate::resources::blockio::set_class;
use crate::resources::diff::overlay;
use crate::resources::{cpu, device_rules, hugepages, memory, pids, unified};
use nri_api::proto::LinuxResources;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};

/// Converts an OCI resources object to the message of the protocol. Classes are not set, because
/// the object has none; `blockIO`, `network`, `rdma` and newer fields are skipped, because the
/// protocol does not have them.
pub fn resources_to_nri(resources: &Value) -> Result<LinuxResources, WrongType> {
    read(resources)
}

pub(crate) fn read(value: &Value) -> Read<LinuxResources> {
    let fields = object(value)?;
    let mut resources = LinuxResources::new();
    memory::read(fields, &mut resources)?;
    cpu::read(fields, &mut resources)?;
    resources.hugepage_limits = hugepages::read(fields)?;
    resources.unified = unified::read(fields)?;
    resources.devices = device_rules::read(fields)?;
    resources.pids = pids::read(fields)?;
    Ok(resources)
}

/// Sets the fields of the message in `base`, an OCI resources object. A huge page limit replaces
/// the limit of its page size, and a unified value the value of its file; a list of device rules
/// replaces the whole list. No null is written, and nulls of `base` are removed.
///
/// The classes are not set: see [`merge_blockio_class`]; an RDT class belongs to `linux.intelRdt`.
pub fn merge_resources(base: &mut Value, resources: &LinuxResources) {
    let mut top = Object::new();
    for (key, fields) in [("memory", memory::to_oci(resources)), ("cpu", cpu::to_oci(resources))] {
        if !fields.is_empty() {
            top.insert(key.into(), fields.into());
        }
    }
    // Limits that are equal are not written: a limit without a page size is read as a limit with an
    // empty page size, and the empty page size must not get into the OCI config.
    let old_limits = base.as_object().and_then(|b| hugepages::read(b).ok()).unwrap_or_default();
    let limits = hugepages::by_size(&resources.hugepage_limits);
    let old_limits: HashMap<_, _> = hugepages::by_size(&old_limits).into_iter().collect();
    let is_new = |(size, limit): &(&str, &_)| old_limits.get(size) != Some(limit);
    let new_limits: Vec<Value> =
        limits.into_iter().filter(is_new).map(|(_, limit)| hugepages::to_oci(limit)).collect();
    if !new_limits.is_empty() {
        top.insert(hugepages::FIELD.into(), new_limits.into());
    }
    if !resources.unified.is_empty() {
        let sorted: BTreeMap<_, _> = resources.unified.iter().collect();
        top.insert(
            "unified".into(),
            sorted.into_iter().map(|(k, v)| (k.as_str(), v.as_str())).collect(),
        );
    }
    if let Some(pids) = resources.pids.as_ref() {
        // A missing limit is read as 0; writing the 0 would change the OCI config.
        let unlimited_before =
            base.get("pids").is_some_and(|p| p.get("limit").is_none_or(Value::is_null));
        if pids.limit != 0 || !unlimited_before {
            top.insert("pids".into(), json!({ "limit": pids::to_oci(pids) }));
        }
    }
    // Rules that are equal in another spelling (`"type": ""` and no type) are not written.
    let old_rules = base.as_object().and_then(|b| device_rules::read(b).ok()).unwrap_or_default();
    if resources.devices != old_rules && !resources.devices.is_empty() {
        let rules = resources.devices.iter().map(device_rules::message_to_oci).collect();
        top.insert("devices".into(), rules);
    }
    overlay(base, &top.into());
}

/// Sets `blockIO` of an OCI resources object to the definition of a class; the empty name removes
/// `blockIO`.
pub fn merge_blockio_class(
    base: &mut Value,
    class: &str,
    ctx: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    set_class(base, &[], class, ctx)
}
