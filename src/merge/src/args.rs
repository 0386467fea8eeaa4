//! The arguments of the process, owned as a whole.
//!
//! A leading empty string replaces what an earlier plugin set. Alone it takes that back: the
//! container's own arguments stay (upstream does the same, but calls it a claim).

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(
    asked: &ContainerAdjustment,
    claims: &mut Claims<'_>,
) -> Result<(), MergeError> {
    let args = without_marker(&asked.args);
    if args.len() < asked.args.len() {
        claims.clear(Field::Args);
    }
    if args.is_empty() { Ok(()) } else { claims.whole(Field::Args) }
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    if asked.args.is_empty() {
        return;
    }
    let args = without_marker(&asked.args);
    merged.adjust.args = args.to_vec();
    merged.container.args =
        if args.is_empty() { merged.pristine.args.clone() } else { args.to_vec() };
}

/// Any number of leading empty strings is one marker: an argument behind it that is empty as well
/// would be taken for the marker again by whoever applies the outcome, and nothing can be executed
/// by an empty name.
fn without_marker(args: &[String]) -> &[String] {
    let marker = args.iter().take_while(|a| a.is_empty()).count();
    &args[marker..]
}
