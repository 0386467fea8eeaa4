//! Arguments of the process, owned as a whole.
//!
//! A leading empty string clears the claim of an earlier plugin. Without further arguments it
//! restores the arguments that the engine requested. (Upstream NRI also restores them, but
//! counts the restoration as a claim.)

use crate::error::MergeError;
use crate::merged::Merged;
use crate::owners::Claims;
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    requested: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    let args = without_marker(&requested.args);
    if args.len() < requested.args.len() {
        claims.clear(Field::Args);
    }
    if args.is_empty() { Ok(()) } else { claims.claim_field(Field::Args) }
}

pub(crate) fn apply(requested: &ContainerAdjustment, merged: &mut Merged) {
    if requested.args.is_empty() {
        return;
    }
    let args = without_marker(&requested.args);
    merged.adjust.args = args.to_vec();
    merged.container.args =
        if args.is_empty() { merged.pristine.args.clone() } else { args.to_vec() };
}

/// Returns the arguments without the marker, which is any number of leading empty strings. If an
/// empty argument came first in the outcome, it would be read as the marker again. Dropping it
/// loses nothing, because an empty program name cannot be executed.
fn without_marker(args: &[String]) -> &[String] {
    let marker_length = args.iter().take_while(|a| a.is_empty()).count();
    &args[marker_length..]
}
