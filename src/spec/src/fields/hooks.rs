//! OCI hooks: `hooks`. Hooks of an adjustment run after those of the engine.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::{array, put_list};
use crate::json::read::{
    Object, Read, field_or_default, integer, list, message, object, optional, text,
};
use crate::oci_config::HOOK_KINDS;
use nri_api::proto::{ContainerAdjustment, Hook, Hooks};
use protobuf::MessageField;
use serde_json::Value;

pub(crate) fn read(spec: &Object) -> Read<MessageField<Hooks>> {
    message(spec, "hooks", |value| {
        let kinds = object(value)?;
        let mut hooks = Hooks::new();
        hooks.prestart = field_or_default(kinds, "prestart", list(read_one))?;
        hooks.create_runtime = field_or_default(kinds, "createRuntime", list(read_one))?;
        hooks.create_container = field_or_default(kinds, "createContainer", list(read_one))?;
        hooks.start_container = field_or_default(kinds, "startContainer", list(read_one))?;
        hooks.poststart = field_or_default(kinds, "poststart", list(read_one))?;
        hooks.poststop = field_or_default(kinds, "poststop", list(read_one))?;
        Ok(hooks)
    })
}

fn read_one(value: &Value) -> Read<Hook> {
    let fields = object(value)?;
    let mut hook = Hook::new();
    hook.path = field_or_default(fields, "path", text)?;
    hook.args = field_or_default(fields, "args", list(text))?;
    hook.env = field_or_default(fields, "env", list(text))?;
    hook.timeout = optional(fields, "timeout", integer)?;
    Ok(hook)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    let adjusted = &adjust.hooks;
    let kinds: [&[Hook]; 6] = [
        &adjusted.prestart,
        &adjusted.create_runtime,
        &adjusted.create_container,
        &adjusted.start_container,
        &adjusted.poststart,
        &adjusted.poststop,
    ];
    for (kind, hooks) in HOOK_KINDS.into_iter().zip(kinds) {
        if !hooks.is_empty() {
            let list = array(spec, &["hooks", kind]).map_err(in_field("hooks"))?;
            list.extend(
                hooks
                    .iter()
                    .map(|h| to_oci(&h.path, &h.args, &h.env, h.timeout.as_ref().map(|t| t.value))),
            );
        }
    }
    Ok(())
}

pub(crate) fn to_oci(path: &str, args: &[String], env: &[String], timeout: Option<i64>) -> Value {
    let mut hook = Object::new();
    hook.insert("path".into(), path.into());
    put_list(&mut hook, "args", args);
    put_list(&mut hook, "env", env);
    if let Some(timeout) = timeout {
        hook.insert("timeout".into(), timeout.into());
    }
    hook.into()
}
