//! Entries of `unified` that say what fields of the resources say: runtimes write them after the
//! fields, so that a container with `memory.max` in `unified` has that limit, whatever
//! `memory.limit` is.
//!
//! Which file holds which field is in [`nri_api::RESOURCE_FIELDS`], and how the value of a field is
//! written in [`plan`]. Here is how the text of a file is read as the value of a field.

use crate::{CgroupDirs, Hierarchy, HierarchyKind, controllers::weight, plan};
use nri_api::{
    ResourceField, fields_of_file, opt,
    proto::{HugepageLimit, LinuxResources},
    resource_field,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, HashMap},
    path::Path,
};

const SHARES: &ResourceField = resource_field("cpu.shares");

/// A file that sets `cpu.shares` in a notation that is not converted.
const NICE: &str = "cpu.weight.nice";

/// Returns the resources with the values that the kernel gets, in place of those that an entry of
/// `unified` replaces. The entries stay. A text that is no value of its file, which the kernel
/// refuses, counts as no limit.
#[must_use]
pub fn effective_resources(resources: &LinuxResources) -> LinuxResources {
    let mut effective = resources.clone();
    // `memory.max` comes before `memory.swap.max`, whose field depends on it.
    let files: BTreeMap<_, _> = resources.unified.iter().collect();
    let limits = Limits::of(resources);
    for (file, text) in files {
        // A runtime writes line by line.
        let Some(text) = text.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
            continue;
        };
        for (field, key) in fields_of_file(file) {
            set(&mut effective, (field, key), (file.as_str(), text), &limits);
        }
    }
    effective
}

/// Limits of memory as fields set them.
struct Limits {
    limit: Option<i64>,
    swap: Option<i64>,
}

impl Limits {
    fn of(resources: &LinuxResources) -> Self {
        let memory = &resources.memory;
        let number = |value: Option<i64>| value.filter(|bytes| *bytes != 0);
        Self {
            limit: number(memory.limit.as_ref().map(|v| v.value)),
            swap: number(memory.swap.as_ref().map(|v| v.value)),
        }
    }

    /// Returns what `memory.swap.max` has of the fields: `None` if they do not set it.
    fn swap_alone(&self) -> Option<i64> {
        match (self.swap?, self.limit) {
            (swap, _) if swap < 0 => Some(-1),
            (swap, Some(limit)) if limit > 0 => Some(swap.saturating_sub(limit).max(0)),
            _ => None,
        }
    }
}

/// Sets a field to the value in its file.
fn set(
    to: &mut LinuxResources,
    (field, key): (&ResourceField, &str),
    (file, text): (&str, &str),
    fields: &Limits,
) {
    let limit = text.parse::<i64>().ok().filter(|number| *number >= 0).unwrap_or(-1);
    match field.name {
        "memory.limit" => {
            let memory = to.memory.mut_or_insert_default();
            memory.limit = opt(Some(limit));
            if let Some(swap) = fields.swap_alone() {
                memory.swap = opt(Some(both(limit, swap)));
            }
        }
        "memory.swap" => {
            let memory = to.memory.mut_or_insert_default();
            let of_memory = memory.limit.as_ref().map_or(-1, |v| v.value);
            memory.swap = opt(Some(both(of_memory, limit)));
        }
        "memory.reservation" => {
            to.memory.mut_or_insert_default().reservation = opt(Some(limit));
        }
        "cpu.shares" => {
            let weight = text.parse().unwrap_or(u64::MAX);
            to.cpu.mut_or_insert_default().shares = opt(Some(weight::shares(weight)));
        }
        "cpu.quota" => {
            let quota =
                time_of(text).filter(|(quota, _)| *quota > 0).map_or(-1, |(quota, _)| quota);
            to.cpu.mut_or_insert_default().quota = opt(Some(quota));
        }
        "cpu.period" => {
            if let Some((_, Some(period))) = time_of(text) {
                to.cpu.mut_or_insert_default().period = opt(Some(period));
            }
        }
        "cpu.cpus" => text.clone_into(&mut to.cpu.mut_or_insert_default().cpus),
        "cpu.mems" => text.clone_into(&mut to.cpu.mut_or_insert_default().mems),
        "pids.limit" => to.pids.mut_or_insert_default().limit = limit,
        "hugepageLimits" => {
            let limit = u64::try_from(limit).unwrap_or(u64::MAX);
            // Of the limits of use and of reservations, which comes later, the higher one counts.
            let is_reservation =
                field.v2.first().is_some_and(|of_use| of_use.replace("{}", key) != file);
            match to.hugepage_limits.iter_mut().find(|other| other.page_size == key) {
                Some(other) if is_reservation => other.limit = other.limit.max(limit),
                Some(other) => other.limit = limit,
                None => to.hugepage_limits.push(HugepageLimit {
                    page_size: key.to_owned(),
                    limit,
                    ..Default::default()
                }),
            }
        }
        _ => {}
    }
}

/// Returns quota, -1 for `max`, and period of a text for `cpu.max`. `None` if a word is neither: of
/// `200000 1000x`, the kernel takes the digits of the period, and the quota of another period would
/// be compared.
fn time_of(text: &str) -> Option<(i64, Option<u64>)> {
    let mut words = text.split_whitespace();
    let quota = match words.next()? {
        "max" => -1,
        word => word.parse().ok()?,
    };
    let period = words.next().map(|word| word.parse().ok());
    match (period, words.next()) {
        (None, None) => Some((quota, None)),
        (Some(Some(period)), None) => Some((quota, Some(period))),
        _ => None,
    }
}

/// Returns the limit of memory and swap together; -1 is unlimited.
fn both(limit: i64, swap: i64) -> i64 {
    if limit <= 0 || swap < 0 { -1 } else { limit.saturating_add(swap) }
}

/// Returns the texts of the files of cgroup v2 that hold `resources`, a `linux.resources` of the
/// OCI config, by the names of the files.
pub fn file_texts(resources: &Value) -> BTreeMap<String, String> {
    let root = Path::new("/");
    let hierarchy = Hierarchy { path: root.to_owned(), kind: HierarchyKind::V2 };
    let writes = plan(resources, &CgroupDirs::of_path(&[hierarchy], root)).writes.into_iter();
    let named = writes.filter_map(|write| {
        let name = write.files.first()?.file_name()?.to_str()?.to_owned();
        Some((name, write.texts.join("\n")))
    });
    named.collect()
}

/// Returns the entry of `unified` that sets what a field sets, in a way with which no value of the
/// field can be compared.
pub fn incomparable_entry<'a>(
    field: &ResourceField,
    unified: &'a HashMap<String, String>,
) -> Option<&'a str> {
    let is_of_field = |file: &&String| {
        let is_part = |(part, _): (&ResourceField, &str)| {
            // The fields of a class are in the OCI config only.
            part.owner.is_some() && part.owner == field.owner && part.name != field.name
        };
        field.name == SHARES.name && *file == NICE || fields_of_file(file).any(is_part)
    };
    unified.keys().filter(is_of_field).min().map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::{Access, RESOURCE_FIELDS};
    use serde_json::json;

    fn unified(entries: &[(&str, &str)]) -> LinuxResources {
        let entries = entries.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
        LinuxResources { unified: entries.collect(), ..Default::default() }
    }

    fn number(resources: &LinuxResources, name: &str) -> Option<i64> {
        let field = RESOURCE_FIELDS.iter().find(|field| field.name == name)?;
        match &field.access {
            Access::Int64(a) => (a.get)(resources),
            Access::UInt64(a) => (a.get)(resources).map(|n| i64::try_from(n).unwrap_or(i64::MAX)),
            _ => None,
        }
    }

    #[test]
    fn an_entry_takes_the_place_of_its_field() {
        for (file, text, field, expected) in [
            ("memory.max", "5000", "memory.limit", 5000),
            ("memory.max", "max", "memory.limit", -1),
            ("memory.max", " 7\n8\n", "memory.limit", 8),
            // The kernel takes a unit, which is not read here.
            ("memory.max", "5G", "memory.limit", -1),
            ("memory.max", "99999999999999999999", "memory.limit", -1),
            ("memory.low", "6", "memory.reservation", 6),
            ("memory.swap.max", "8", "memory.swap", 108),
            ("memory.swap.max", "max", "memory.swap", -1),
            ("cpu.weight", "100", "cpu.shares", 1024),
            ("cpu.max", "500 2000", "cpu.quota", 500),
            ("cpu.max", "500 2000", "cpu.period", 2000),
            ("cpu.max", "500", "cpu.period", 9000),
            ("cpu.max", "max 2000", "cpu.quota", -1),
            ("cpu.max", "max 2000", "cpu.period", 2000),
            // The kernel reads digits and leaves the rest.
            ("cpu.max", "500 2000x", "cpu.quota", -1),
            ("cpu.max", "500 2000,", "cpu.quota", -1),
            ("cpu.max", "500 2000 3", "cpu.quota", -1),
            ("cpu.max", "500x 2000", "cpu.quota", -1),
            ("pids.max", "9", "pids.limit", 9),
            ("pids.max", "max", "pids.limit", -1),
            ("memory.high", "9", "memory.limit", 100),
        ] {
            let mut resources = unified(&[(file, text)]);
            resources.memory.mut_or_insert_default().limit = opt(Some(100));
            let cpu = resources.cpu.mut_or_insert_default();
            (cpu.quota, cpu.period) = (opt(Some(1)), opt(Some(9000)));
            resources.pids.mut_or_insert_default().limit = 1;
            let effective = effective_resources(&resources);
            assert_eq!(number(&effective, field), Some(expected), "{file} {text}");
        }
        let mut sets = unified(&[("cpuset.cpus", "0-3"), ("cpuset.mems", "1")]);
        sets.cpu.mut_or_insert_default().cpus = "0".to_owned();
        let cpu = effective_resources(&sets).cpu;
        assert_eq!((cpu.cpus.as_str(), cpu.mems.as_str()), ("0-3", "1"));
    }

    #[test]
    fn swap_is_what_the_kernel_gives_beside_the_memory() {
        let effective = |entries: &[(&str, &str)]| {
            let mut resources = unified(entries);
            let memory = resources.memory.mut_or_insert_default();
            (memory.limit, memory.swap) = (opt(Some(100)), opt(Some(150)));
            let effective = effective_resources(&resources);
            (number(&effective, "memory.limit"), number(&effective, "memory.swap"))
        };
        assert_eq!(effective(&[]), (Some(100), Some(150)));
        // The runtime writes the 50 bytes that the fields leave for swap.
        assert_eq!(effective(&[("memory.max", "300")]), (Some(300), Some(350)));
        assert_eq!(effective(&[("memory.max", "max")]), (Some(-1), Some(-1)));
        let both = [("memory.max", "300"), ("memory.swap.max", "7")];
        assert_eq!(effective(&both), (Some(300), Some(307)));
    }

    #[test]
    fn huge_pages_are_limited_by_both_of_their_files() {
        let effective = |entries: &[(&str, &str)]| {
            let mut resources = unified(entries);
            let limit = HugepageLimit { page_size: "2MB".into(), limit: 5, ..Default::default() };
            resources.hugepage_limits.push(limit);
            let limits = effective_resources(&resources).hugepage_limits;
            limits.iter().map(|l| (l.page_size.clone(), l.limit)).collect::<Vec<_>>()
        };
        let size = |limit| ("2MB".to_owned(), limit);
        assert_eq!(effective(&[("hugetlb.2MB.max", "3")]), [size(3)]);
        assert_eq!(effective(&[("hugetlb.2MB.rsvd.max", "3")]), [size(5)]);
        assert_eq!(effective(&[("hugetlb.2MB.rsvd.max", "max")]), [size(u64::MAX)]);
        let other = effective(&[("hugetlb.1GB.max", "9")]);
        assert_eq!(other, [size(5), ("1GB".to_owned(), 9)]);
    }

    #[test]
    fn files_have_the_texts_of_fields() {
        let resources = json!({
            "memory": {"limit": 100, "swap": 150}, "pids": {"limit": -1},
            "cpu": {"shares": 1024, "quota": 500, "period": 2000, "cpus": "0-3"},
            "hugepageLimits": [{"pageSize": "2MB", "limit": 5}],
        });
        let expected = [
            ("cpu.max", "500 2000"),
            ("cpu.weight", "100"),
            ("cpuset.cpus", "0-3"),
            ("hugetlb.2MB.max", "5"),
            ("hugetlb.2MB.rsvd.max", "5"),
            ("memory.max", "100"),
            ("memory.swap.max", "50"),
            ("pids.max", "max"),
        ];
        let expected = expected.map(|(file, text)| (file.to_owned(), text.to_owned()));
        assert_eq!(file_texts(&resources), BTreeMap::from(expected));
    }

    #[test]
    fn entries_that_no_value_of_a_field_can_be_compared_with_are_named() {
        let found = |field: &str, file: &str| {
            let field = RESOURCE_FIELDS.iter().find(|row| row.name == field).unwrap();
            incomparable_entry(field, &unified(&[(file, "1")]).unified).is_some()
        };
        assert!(found("cpu.shares", "cpu.weight.nice"));
        assert!(found("blockio_class", "io.max") && found("blockio_class", "io.weight"));
        assert!(!found("cpu.shares", "cpu.weight") && !found("cpu.quota", "cpu.max"));
        assert!(!found("memory.limit", "io.max") && !found("resources.devices", "memory.max"));
    }
}
