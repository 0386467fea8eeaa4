//! Device nodes, `linux.devices`, and the rules of the device cgroup, `linux.resources.devices`.
//!
//! A node that is added also gets a rule that allows its use. Its access is that of upstream: `rw`, and `rwm` for a block device;
//! runtimes make the node themselves, so that the container need not be allowed to.

use crate::context::ApplyContext;
use crate::edit::{array, existing_array, in_field, is_named, put, put_text};
use crate::error::ApplyError;
use crate::read::{Object, Read, boolean, field_or_default, integer, list, object, optional, text};
use nri_api::{
    Marked,
    proto::{ContainerAdjustment, LinuxDevice, LinuxDeviceCgroup},
};
use serde_json::Value;

const NODES: [&str; 2] = ["linux", "devices"];
const RULES: [&str; 3] = ["linux", "resources", "devices"];

pub(crate) fn read(linux: &Object) -> Read<Vec<LinuxDevice>> {
    field_or_default(linux, "devices", list(read_node))
}

fn read_node(value: &Value) -> Read<LinuxDevice> {
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

pub(crate) fn read_rules(resources: &Object) -> Read<Vec<LinuxDeviceCgroup>> {
    field_or_default(resources, "devices", list(read_rule))
}

fn read_rule(value: &Value) -> Read<LinuxDeviceCgroup> {
    let fields = object(value)?;
    let mut rule = LinuxDeviceCgroup::new();
    rule.allow = field_or_default(fields, "allow", boolean)?;
    rule.type_ = field_or_default(fields, "type", text)?;
    rule.major = optional(fields, "major", integer)?;
    rule.minor = optional(fields, "minor", integer)?;
    rule.access = field_or_default(fields, "access", text)?;
    Ok(rule)
}

/// Nodes, each with its rule.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let devices = &adjust.linux.devices;
    for device in devices {
        let path = Marked::parse(&device.path).key();
        if path.is_empty() {
            return Err(ApplyError::Invalid { field: "device", value: String::new(), why: "has no path" });
        }
        remove_node(spec, path)?;
    }
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
        add_node(spec, node)?;
        add_rule(spec, rule_to_oci(true, &device.type_, Some(device.major), Some(device.minor), access))?;
    }
    Ok(())
}

/// Rules that a plugin gives itself.
pub(crate) fn apply_rules(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    adjust.linux.resources.devices.iter().try_for_each(|rule| add_rule(spec, rule_of(rule)))
}

pub(crate) fn rule_of(rule: &LinuxDeviceCgroup) -> Value {
    let (major, minor) = (rule.major.as_ref().map(|v| v.value), rule.minor.as_ref().map(|v| v.value));
    rule_to_oci(rule.allow, &rule.type_, major, minor, &rule.access)
}

pub(crate) fn remove_node(spec: &mut Value, path: &str) -> Result<(), ApplyError> {
    if let Some(nodes) = existing_array(spec, &NODES).map_err(in_field("devices"))? {
        nodes.retain(|n| !is_named(n, "path", path));
    }
    Ok(())
}

pub(crate) fn add_node(spec: &mut Value, node: Object) -> Result<(), ApplyError> {
    array(spec, &NODES).map_err(in_field("devices"))?.push(node.into());
    Ok(())
}

pub(crate) fn add_rule(spec: &mut Value, rule: Value) -> Result<(), ApplyError> {
    array(spec, &RULES).map_err(in_field("device rules"))?.push(rule);
    Ok(())
}

pub(crate) fn rule_to_oci(
    allow: bool,
    kind: &str,
    major: Option<i64>,
    minor: Option<i64>,
    access: &str,
) -> Value {
    let mut rule = Object::new();
    rule.insert("allow".into(), allow.into());
    put_text(&mut rule, "type", kind);
    if let Some(major) = major {
        rule.insert("major".into(), major.into());
    }
    if let Some(minor) = minor {
        rule.insert("minor".into(), minor.into());
    }
    put_text(&mut rule, "access", access);
    rule.into()
}
