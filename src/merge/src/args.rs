//! The arguments of the process, owned as a whole.
//!
//! A leading empty string replaces what an earlier plugin set. Alone it takes that back: the container's own arguments
//! stay (upstream does the same, but calls it a claim).

use crate::owners::Claims;
use crate::{MergeError, merged::Merged};
use nri_api::proto::{ContainerAdjustment, Field};

pub(crate) fn claim(asked: &ContainerAdjustment, claims: &mut Claims<'_>) -> Result<(), MergeError> {
    match asked.args.as_slice() {
        [] => Ok(()),
        [first] if first.is_empty() => {
            claims.clear(Field::Args);
            Ok(())
        }
        [first, ..] => {
            if first.is_empty() {
                claims.clear(Field::Args);
            }
            claims.whole(Field::Args)
        }
    }
}

pub(crate) fn apply(asked: &ContainerAdjustment, merged: &mut Merged) {
    let args = match asked.args.as_slice() {
        [] => return,
        [first, rest @ ..] if first.is_empty() => rest,
        args => args,
    };
    merged.adjust.args = args.to_vec();
    merged.container.args = if args.is_empty() { merged.pristine.args.clone() } else { args.to_vec() };
}
