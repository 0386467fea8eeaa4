//! Hugetlb controller: `linux.resources.hugepageLimits`, and the limits of reservations beside
//! them, where the kernel has them (5.7 and later).

use crate::{
    Controller, Expect, Place, Plan, Setting,
    setting::{Dir, dir},
};
use serde_json::Value;
use std::path::Path;

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    for limit in resources.get("hugepageLimits").and_then(Value::as_array).into_iter().flatten() {
        let size = limit.get("pageSize").and_then(Value::as_str).unwrap_or_default();
        let Some(bytes) = limit.get("limit").and_then(Value::as_u64) else { continue };
        let field = format!("hugepageLimits.{size}");
        // It becomes part of a file's name.
        let is_size = size.ends_with('B') && size.bytes().all(|b| b.is_ascii_alphanumeric());
        match dir(place, Controller::Hugetlb) {
            _ if !is_size => plan.none(field),
            Dir::V1(dir) => both(dir, &field, size, "limit_in_bytes", bytes, plan),
            Dir::V2(dir) => both(dir, &field, size, "max", bytes, plan),
            Dir::Nowhere => plan.none(field),
        }
    }
}

fn both(dir: &Path, field: &str, size: &str, name: &str, bytes: u64, plan: &mut Plan) {
    // The kernel cuts it down to whole huge pages.
    let page = page_bytes(size).unwrap_or(1);
    let mut texts = vec![(bytes - bytes % page).to_string(), bytes.to_string()];
    texts.dedup();
    let cut = Expect::OneOf(texts);
    let expect = if bytes > i64::MAX as u64 - page { Expect::Bytes(None) } else { cut };
    for (file, optional) in
        [(format!("hugetlb.{size}.{name}"), false), (format!("hugetlb.{size}.rsvd.{name}"), true)]
    {
        plan.settings.push(Setting {
            field: field.to_owned(),
            files: vec![dir.join(file)],
            write: vec![bytes.to_string()],
            expect: expect.clone(),
            optional,
        });
    }
}

/// `2MB` in bytes.
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
