//! Scheduling of the process: `process.scheduler`. `SCHED_NONE` removes the field.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{remove_at, set_at};
use crate::json::read::{Object, Read, field, field_or_default, integer, list, object, text};
use nri_api::proto::{
    ContainerAdjustment, Field, LinuxScheduler, LinuxSchedulerFlag, LinuxSchedulerPolicy,
};
use protobuf::{Enum, MessageField};
use serde_json::Value;

/// Reads the attributes, without flags that the protocol lacks. Returns no message if the protocol
/// lacks the policy.
pub(crate) fn read(process: &Object) -> Read<MessageField<LinuxScheduler>> {
    let read = field(process, "scheduler", |value| {
        let fields = object(value)?;
        let policy = field_or_default(fields, "policy", text)?;
        let flags = field_or_default(fields, "flags", list(text))?;
        let mut scheduler = LinuxScheduler::new();
        scheduler.nice = field_or_default(fields, "nice", integer)?;
        scheduler.priority = field_or_default(fields, "priority", integer)?;
        scheduler.flags = flags
            .iter()
            .filter_map(|f| LinuxSchedulerFlag::from_str(f))
            .map(protobuf::EnumOrUnknown::new)
            .collect();
        scheduler.runtime = field_or_default(fields, "runtime", integer)?;
        scheduler.deadline = field_or_default(fields, "deadline", integer)?;
        scheduler.period = field_or_default(fields, "period", integer)?;
        Ok(LinuxSchedulerPolicy::from_str(&policy).map(|policy| {
            scheduler.policy = policy.into();
            scheduler
        }))
    })?;
    Ok(read.flatten().into())
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let Some(scheduler) = adjust.linux.scheduler.as_ref() else { return Ok(()) };
    let policy = scheduler.policy.enum_value();
    let policy = policy.map_err(|value| ApplyError::UnknownValue {
        field: Field::LinuxSched,
        part: "policy",
        value,
    })?;
    if policy == LinuxSchedulerPolicy::SCHED_NONE {
        return remove_at(spec, &["process"], "scheduler").map_err(in_field("scheduler"));
    }
    let mut flags = Vec::new();
    for flag in &scheduler.flags {
        let flag = flag.enum_value().map_err(|value| ApplyError::UnknownValue {
            field: Field::LinuxSched,
            part: "flag",
            value,
        })?;
        flags.push(Value::from(format!("{flag:?}")));
    }
    let mut fields = Object::new();
    fields.insert("policy".into(), format!("{policy:?}").into());
    for (key, value) in [("nice", scheduler.nice), ("priority", scheduler.priority)] {
        if value != 0 {
            fields.insert(key.into(), value.into());
        }
    }
    if !flags.is_empty() {
        fields.insert("flags".into(), flags.into());
    }
    let times = [
        ("runtime", scheduler.runtime),
        ("deadline", scheduler.deadline),
        ("period", scheduler.period),
    ];
    for (key, value) in times {
        if value != 0 {
            fields.insert(key.into(), value.into());
        }
    }
    set_at(spec, &["process"], "scheduler", fields).map_err(in_field("scheduler"))
}
