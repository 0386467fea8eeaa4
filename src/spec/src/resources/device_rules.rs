//! Rules of the devices controller: `linux.resources.devices`. Later rules override earlier ones,
//! so rules are only appended.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{array, put_text};
use crate::json::read::{
    Object, Read, boolean, field_or_default, integer, list, object, optional, text,
};
use nri_api::proto::{ContainerAdjustment, LinuxDeviceCgroup};
use serde_json::Value;

const PATH: [&str; 3] = ["linux", "resources", "devices"];

pub(crate) fn read(resources: &Object) -> Read<Vec<LinuxDeviceCgroup>> {
    field_or_default(resources, "devices", list(read_one))
}

fn read_one(value: &Value) -> Read<LinuxDeviceCgroup> {
    let fields = object(value)?;
    let mut rule = LinuxDeviceCgroup::new();
    rule.allow = field_or_default(fields, "allow", boolean)?;
    rule.type_ = field_or_default(fields, "type", text)?;
    rule.major = optional(fields, "major", integer)?;
    rule.minor = optional(fields, "minor", integer)?;
    rule.access = field_or_default(fields, "access", text)?;
    Ok(rule)
}

/// Appends the rules of the adjustment.
pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    adjust.linux.resources.devices.iter().try_for_each(|rule| add(spec, message_to_oci(rule)))
}

/// Converts a rule of the protocol.
pub(crate) fn message_to_oci(rule: &LinuxDeviceCgroup) -> Value {
    let (major, minor) =
        (rule.major.as_ref().map(|v| v.value), rule.minor.as_ref().map(|v| v.value));
    to_oci(rule.allow, &rule.type_, major, minor, &rule.access)
}

/// Appends a rule.
pub(crate) fn add(spec: &mut Value, rule: Value) -> Result<(), ApplyError> {
    array(spec, &PATH).map_err(in_field("resources.devices"))?.push(rule);
    Ok(())
}

pub(crate) fn to_oci(
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
