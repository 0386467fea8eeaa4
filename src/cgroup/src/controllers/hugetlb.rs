//! Hugetlb controller: `linux.resources.hugepageLimits`. Linux 5.7 and later also limit the
//! reservations of huge pages (`rsvd`); those limits get the same value.

use crate::{
    controller::Controller,
    dirs::CgroupDirs,
    effective::EffectiveValue,
    plan::{ControllerDir, Plan, list},
    write::CgroupWrite,
};
use nri_api::{ResourceField, entry_name, resource_field};
use serde_json::Value;

const LIMITS: &ResourceField = resource_field("hugepageLimits");

pub(crate) fn add(resources: &Value, dirs: &CgroupDirs, plan: &mut Plan) {
    let dir = ControllerDir::of(dirs, Controller::Hugetlb);
    for limit in list(resources, LIMITS) {
        let size = limit.get("pageSize").and_then(Value::as_str).unwrap_or_default();
        let Some(bytes) = limit.get("limit").and_then(Value::as_u64) else { continue };
        let field = entry_name(LIMITS.name, size);
        // The size becomes part of a file name, so it must not contain a slash.
        let is_size = size.ends_with('B') && size.bytes().all(|b| b.is_ascii_alphanumeric());
        let Some((dir, [limit, reservations @ ..])) = dir.files(LIMITS).filter(|_| is_size) else {
            plan.add_unsupported(field);
            continue;
        };
        let mut write = |name: &str, is_optional| {
            plan.writes.push(CgroupWrite {
                field: field.clone(),
                files: vec![dir.join(name.replace("{}", size))],
                texts: vec![bytes.to_string()],
                effective: effective(size, bytes),
                is_optional,
            });
        };
        write(limit, false);
        reservations.iter().for_each(|name| write(name, true));
    }
}

/// The limit as the kernel may show it: rounded down to whole huge pages, or as written.
fn effective(size: &str, bytes: u64) -> EffectiveValue {
    let page = page_bytes(size).unwrap_or(1);
    if bytes > i64::MAX as u64 - page {
        return EffectiveValue::Bytes(None);
    }
    let mut texts = vec![(bytes - bytes % page).to_string(), bytes.to_string()];
    texts.dedup();
    EffectiveValue::OneOf(texts)
}

/// Converts a page size such as `2MB` to bytes; `None` if it is malformed.
fn page_bytes(size: &str) -> Option<u64> {
    let (number, unit) = size.split_at(size.find(|c: char| !c.is_ascii_digit())?);
    let unit = match unit {
        "KB" => 1 << 10,
        "MB" => 1 << 20,
        "GB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|n| *n > 0)
}
