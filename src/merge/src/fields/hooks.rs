//! OCI hooks. The hooks of all plugins are appended in call order, so plugins never conflict.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field, Hooks};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    if has_hooks(&requested.hooks) {
        claims.contribute(Field::OciHooks);
    }
    Ok(())
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if has_hooks(&requested.hooks) {
        append(&requested.hooks, merged.container.hooks.mut_or_insert_default());
        append(&requested.hooks, merged.adjust.hooks.mut_or_insert_default());
    }
}

fn has_hooks(hooks: &Hooks) -> bool {
    let Hooks {
        prestart,
        create_runtime,
        create_container,
        start_container,
        poststart,
        poststop,
        ..
    } = hooks;
    [prestart, create_runtime, create_container, start_container, poststart, poststop]
        .iter()
        .any(|list| !list.is_empty())
}

fn append(from: &Hooks, to: &mut Hooks) {
    to.prestart.extend_from_slice(&from.prestart);
    to.create_runtime.extend_from_slice(&from.create_runtime);
    to.create_container.extend_from_slice(&from.create_container);
    to.start_container.extend_from_slice(&from.start_container);
    to.poststart.extend_from_slice(&from.poststart);
    to.poststop.extend_from_slice(&from.poststop);
}
