//! System call filter: `linux.seccomp`, replaced as a whole.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{put, put_list, put_text, set_at};
use crate::json::read::{
    Object, Read, field_or_default, integer, list, message, object, optional, text,
};
use nri_api::proto::{ContainerAdjustment, LinuxSeccomp, LinuxSeccompArg, LinuxSyscall};
use protobuf::MessageField;
use serde_json::{Value, json};

pub(crate) fn read(linux: &Object) -> Read<MessageField<LinuxSeccomp>> {
    message(linux, "seccomp", |value| {
        let fields = object(value)?;
        let mut seccomp = LinuxSeccomp::new();
        seccomp.default_action = field_or_default(fields, "defaultAction", text)?;
        seccomp.default_errno = optional(fields, "defaultErrnoRet", integer)?;
        seccomp.architectures = field_or_default(fields, "architectures", list(text))?;
        seccomp.flags = field_or_default(fields, "flags", list(text))?;
        seccomp.listener_path = field_or_default(fields, "listenerPath", text)?;
        seccomp.listener_metadata = field_or_default(fields, "listenerMetadata", text)?;
        seccomp.syscalls = field_or_default(fields, "syscalls", list(read_syscall))?;
        Ok(seccomp)
    })
}

fn read_syscall(value: &Value) -> Read<LinuxSyscall> {
    let fields = object(value)?;
    let mut syscall = LinuxSyscall::new();
    syscall.names = field_or_default(fields, "names", list(text))?;
    syscall.action = field_or_default(fields, "action", text)?;
    syscall.errno_ret = optional(fields, "errnoRet", integer)?;
    syscall.args = field_or_default(fields, "args", list(read_arg))?;
    Ok(syscall)
}

fn read_arg(value: &Value) -> Read<LinuxSeccompArg> {
    let fields = object(value)?;
    let mut arg = LinuxSeccompArg::new();
    arg.index = field_or_default(fields, "index", integer)?;
    arg.value = field_or_default(fields, "value", integer)?;
    arg.value_two = field_or_default(fields, "valueTwo", integer)?;
    arg.op = field_or_default(fields, "op", text)?;
    Ok(arg)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    match adjust.linux.seccomp_policy.as_ref() {
        None => Ok(()),
        Some(policy) => {
            set_at(spec, &["linux"], "seccomp", to_oci(policy)).map_err(in_field("seccomp"))
        }
    }
}

fn to_oci(policy: &LinuxSeccomp) -> Value {
    let mut fields = Object::new();
    fields.insert("defaultAction".into(), policy.default_action.as_str().into());
    put(&mut fields, "defaultErrnoRet", &policy.default_errno);
    put_list(&mut fields, "architectures", &policy.architectures);
    put_list(&mut fields, "flags", &policy.flags);
    put_text(&mut fields, "listenerPath", &policy.listener_path);
    put_text(&mut fields, "listenerMetadata", &policy.listener_metadata);
    if !policy.syscalls.is_empty() {
        fields.insert("syscalls".into(), policy.syscalls.iter().map(syscall_to_oci).collect());
    }
    fields.into()
}

fn syscall_to_oci(syscall: &LinuxSyscall) -> Value {
    let mut fields = Object::new();
    fields.insert("names".into(), syscall.names.as_slice().into());
    fields.insert("action".into(), syscall.action.as_str().into());
    put(&mut fields, "errnoRet", &syscall.errno_ret);
    if !syscall.args.is_empty() {
        fields.insert("args".into(), syscall.args.iter().map(arg_to_oci).collect());
    }
    fields.into()
}

fn arg_to_oci(arg: &LinuxSeccompArg) -> Value {
    let mut fields = json!({ "index": arg.index, "value": arg.value });
    if arg.value_two != 0 {
        fields["valueTwo"] = arg.value_two.into();
    }
    fields["op"] = arg.op.as_str().into();
    fields
}
