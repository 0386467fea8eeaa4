//! Score adjustment for the OOM killer.

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.claim_fields([(requested.linux.oom_score_adj.is_some(), Field::OomScoreAdj)])
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.linux.oom_score_adj.is_some() {
        let (container, adjust) = merged.linux();
        container.oom_score_adj.clone_from(&requested.linux.oom_score_adj);
        adjust.oom_score_adj.clone_from(&requested.linux.oom_score_adj);
    }
}
