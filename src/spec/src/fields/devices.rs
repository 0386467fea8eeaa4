//! Device nodes: `linux.devices`, identified by path.
//!
//! A new node also gets a device rule that allows its use, with the access of upstream NRI: `rw`,
//! or `rwm` for a block device. A container does not need `m` (mknod), because the runtime creates
//! the node.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{array, existing_array, put};
use crate::json::named;
use crate::json::read::{Object, Read, field_or_default, integer, list, object, optional, text};
use crate::resources::device_rules;
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, Field, LinuxDevice},
};
use serde_json::Value;
use std::collections::HashSet;

pub(crate) const NODES: [&str; 2] = ["linux", "devices"];

pub(crate) fn read(linux: &Object) -> Read<Vec<LinuxDevice>> {
    field_or_default(linux, "devices", list(read_one))
}

fn read_one(value: &Value) -> Read<LinuxDevice> {
    let fields = object(value)?;
    let mut device = LinuxDevice::new();
    device.path = field_or_default(fields, "path", text)?;
    device.type_ = field_or_default(fields, "type", text)?;
    device.major = field_or_default(fields, "major", integer)?;
    device.minor = field_or_default(fields, "minor", integer)?;
    device.file_mode = optional(fields, "fileMode", integer)?;
    device.uid = optional(fields, "uid", integer)?;
    device.gid = optional(fields, "gid", integer)?;
    Ok(device)
}

/// Adds nodes with their device rules, and removes nodes.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let devices = &adjust.linux.devices;
    let paths: HashSet<&str> = devices.iter().map(|d| Marked::parse(&d.path).key()).collect();
    if paths.contains("") {
        return Err(ApplyError::Invalid {
            field: Field::Devices,
            value: String::new(),
            why: "has no path",
        });
    }
    remove(spec, &paths)?;
    for device in devices.iter().filter(|d| matches!(Marked::parse(&d.path), Marked::Set(_))) {
        let mut node = Object::new();
        node.insert("path".into(), device.path.as_str().into());
        node.insert("type".into(), device.type_.as_str().into());
        node.insert("major".into(), device.major.into());
        node.insert("minor".into(), device.minor.into());
        put(&mut node, "fileMode", &device.file_mode);
        put(&mut node, "uid", &device.uid);
        put(&mut node, "gid", &device.gid);
        let access = if device.type_ == "b" { "rwm" } else { "rw" };
        array(spec, &NODES).map_err(in_field("devices"))?.push(node.into());
        device_rules::add(
            spec,
            device_rules::to_oci(
                true,
                &device.type_,
                Some(device.major),
                Some(device.minor),
                access,
            ),
        )?;
    }
    Ok(())
}

/// Adds the nodes of CDI edits; each replaces the existing nodes of its path.
pub(crate) fn replace(spec: &mut Value, nodes: Vec<(&str, Value)>) -> Result<(), ApplyError> {
    if nodes.is_empty() {
        return Ok(());
    }
    remove(spec, &nodes.iter().map(|(path, _)| *path).collect())?;
    let nodes = named::last_of_each(nodes).into_iter().map(|(_, node)| node);
    array(spec, &NODES).map_err(in_field("devices"))?.extend(nodes);
    Ok(())
}

fn remove(spec: &mut Value, paths: &HashSet<&str>) -> Result<(), ApplyError> {
    if !paths.is_empty()
        && let Some(nodes) = existing_array(spec, &NODES).map_err(in_field("devices"))?
    {
        named::remove(nodes, named::name_field("path"), paths);
    }
    Ok(())
}
