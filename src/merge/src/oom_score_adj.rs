//! The score adjustment for the OOM killer.

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    claims.each([(asked.linux.oom_score_adj.is_some(), Field::OomScoreAdj)])
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.linux.oom_score_adj.is_some() {
        let (container, adjust) = merged.linux();
        container.oom_score_adj.clone_from(&asked.linux.oom_score_adj);
        adjust.oom_score_adj.clone_from(&asked.linux.oom_score_adj);
    }
}
