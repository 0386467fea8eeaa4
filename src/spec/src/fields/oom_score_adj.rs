//! OOM score adjustment: `process.oomScoreAdj`.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::set_at;
use crate::json::read::{Object, Read, integer, optional};
use nri_api::proto::{ContainerAdjustment, OptionalInt};
use protobuf::MessageField;
use serde_json::Value;

pub(crate) fn read(process: &Object) -> Read<MessageField<OptionalInt>> {
    optional(process, "oomScoreAdj", integer)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    match adjust.linux.oom_score_adj.as_ref() {
        None => Ok(()),
        Some(score) => set_at(spec, &["process"], "oomScoreAdj", score.value)
            .map_err(in_field("oom_score_adj")),
    }
}
