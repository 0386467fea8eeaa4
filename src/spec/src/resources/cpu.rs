//! CPU and cpuset controllers: `linux.resources.cpu`. `idle` and `burst` have no field in the
//! protocol and stay.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{object as object_at, put, put_text};
use crate::json::read::{Object, Read, field_or_default, integer, message, object, optional, text};
use crate::resources::diff::overlay_object;
use nri_api::proto::{ContainerAdjustment, LinuxCPU};
use protobuf::MessageField;
use serde_json::Value;

pub(crate) fn read(resources: &Object) -> Read<MessageField<LinuxCPU>> {
    message(resources, "cpu", |value| {
        let fields = object(value)?;
        let mut cpu = LinuxCPU::new();
        cpu.shares = optional(fields, "shares", integer)?;
        cpu.quota = optional(fields, "quota", integer)?;
        cpu.period = optional(fields, "period", integer)?;
        cpu.realtime_runtime = optional(fields, "realtimeRuntime", integer)?;
        cpu.realtime_period = optional(fields, "realtimePeriod", integer)?;
        cpu.cpus = field_or_default(fields, "cpus", text)?;
        cpu.mems = field_or_default(fields, "mems", text)?;
        Ok(cpu)
    })
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let fields = to_oci(&adjust.linux.resources.cpu);
    if !fields.is_empty() {
        let target = object_at(spec, &["linux", "resources", "cpu"]).map_err(in_field("cpu"))?;
        overlay_object(target, &fields);
    }
    Ok(())
}

/// What is given, and nothing else.
pub(crate) fn to_oci(cpu: &LinuxCPU) -> Object {
    let mut fields = Object::new();
    put(&mut fields, "shares", &cpu.shares);
    put(&mut fields, "quota", &cpu.quota);
    put(&mut fields, "period", &cpu.period);
    put(&mut fields, "realtimeRuntime", &cpu.realtime_runtime);
    put(&mut fields, "realtimePeriod", &cpu.realtime_period);
    put_text(&mut fields, "cpus", &cpu.cpus);
    put_text(&mut fields, "mems", &cpu.mems);
    fields
}
