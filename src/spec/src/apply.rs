//! [`apply`]: applies an adjustment to an OCI config, all of it or nothing.

use crate::context::ApplyContext;
use crate::error::ApplyError;
use crate::fields::GROUPS;
use crate::oci_config::OciConfig;
use crate::resources::memory;
use nri_api::proto::ContainerAdjustment;

/// Result of applying an adjustment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// Whether the OCI config changed; if not, its file need not be written.
    pub changed: bool,
    /// Whether the limit of memory and swap follows from the limit of memory that was applied.
    pub swap_follows: bool,
}

/// Applies an adjustment. On an error the OCI config is unchanged.
///
/// Fields that the adjustment does not name are unchanged, including the order of keys and the text
/// of numbers. Entries of `unified` that undo one that it sets are removed.
pub fn apply(
    config: &mut OciConfig,
    adjust: &ContainerAdjustment,
    ctx: &ApplyContext<'_>,
) -> Result<Applied, ApplyError> {
    let mut copy = config.value().clone();
    let swap_follows = memory::derived_swap(&copy, adjust, ctx).is_some();
    for group in GROUPS {
        group(&mut copy, adjust, ctx)?;
    }
    let changed = copy != *config.value();
    if changed {
        *config.value_mut() = copy;
    }
    Ok(Applied { changed, swap_follows })
}
