//! Huge page limits: `linux.resources.hugepageLimits`, by page size.

use crate::context::ApplyContext;
use crate::edit::{array, in_field, replace_or_push};
use crate::error::ApplyError;
use crate::read::{Object, Read, field_or_default, integer, list, object, text};
use nri_api::proto::{ContainerAdjustment, HugepageLimit};
use serde_json::{Value, json};

/// What identifies an entry of the list.
pub(crate) const KEY: &str = "pageSize";

/// Where the list is in a resources document.
pub(crate) const FIELD: &str = "hugepageLimits";

pub(crate) fn read(resources: &Object) -> Read<Vec<HugepageLimit>> {
    field_or_default(resources, FIELD, list(read_one))
}

fn read_one(value: &Value) -> Read<HugepageLimit> {
    let fields = object(value)?;
    let mut limit = HugepageLimit::new();
    limit.page_size = field_or_default(fields, KEY, text)?;
    limit.limit = field_or_default(fields, "limit", integer)?;
    Ok(limit)
}

pub(crate) fn apply(
    spec: &mut Value,
    adjust: &ContainerAdjustment,
    _: &ApplyContext<'_>,
) -> Result<(), ApplyError> {
    for limit in &adjust.linux.resources.hugepage_limits {
        if limit.page_size.is_empty() {
            return Err(ApplyError::Invalid {
                field: "hugepage limit",
                value: String::new(),
                why: "has no page size",
            });
        }
        let list = array(spec, &["linux", "resources", FIELD]).map_err(in_field("hugepage limits"))?;
        replace_or_push(list, KEY, &limit.page_size, to_oci(limit));
    }
    Ok(())
}

/// One limit per page size: the last one given counts.
pub(crate) fn by_size(limits: &[HugepageLimit]) -> Vec<&HugepageLimit> {
    let is_last = |i: usize| limits[i + 1..].iter().all(|later| later.page_size != limits[i].page_size);
    limits.iter().enumerate().filter(|(i, _)| is_last(*i)).map(|(_, limit)| limit).collect()
}

pub(crate) fn to_oci(limit: &HugepageLimit) -> Value {
    json!({ KEY: limit.page_size, "limit": limit.limit })
}
