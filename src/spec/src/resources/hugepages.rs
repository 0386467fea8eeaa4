//! Huge page limits: `linux.resources.hugepageLimits`, identified by page size.

use crate::context::ApplyContext;
use crate::error::{ApplyError, in_field};
use crate::json::edit::array;
use crate::json::named;
use crate::json::read::{Object, Read, field_or_default, integer, list, object, text};
use nri_api::proto::{ContainerAdjustment, Field, HugepageLimit};
use serde_json::{Value, json};

/// Key of an entry of the list.
pub(crate) const KEY: &str = "pageSize";

/// Name of the list in a resources object.
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
    let limits = &adjust.linux.resources.hugepage_limits;
    if limits.iter().any(|l| l.page_size.is_empty()) {
        return Err(ApplyError::Invalid {
            field: Field::HugepageLimits,
            value: String::new(),
            why: "has no page size",
        });
    }
    if limits.is_empty() {
        return Ok(());
    }
    let entries = limits.iter().map(|l| (Some(l.page_size.as_str()), to_oci(l))).collect();
    let list = array(spec, &["linux", "resources", FIELD]).map_err(in_field(FIELD))?;
    named::replace_or_push(list, named::name_field(KEY), entries);
    Ok(())
}

/// Returns one limit per page size, the last of each.
pub(crate) fn by_size(limits: &[HugepageLimit]) -> Vec<(&str, &HugepageLimit)> {
    named::last_of_each(limits.iter().map(|limit| (limit.page_size.as_str(), limit)).collect())
}

pub(crate) fn to_oci(limit: &HugepageLimit) -> Value {
    json!({ KEY: limit.page_size, "limit": limit.limit })
}
