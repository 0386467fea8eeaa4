//! Whether a field can have a value at all: what no runtime or kernel takes is a mistake of the
//! file, found before it refuses containers. Values of expressions are left to the runtime.

use crate::field::{FieldValue, Group, Key};
use nri_plugin::RLIMITS;
use nri_spec::cdi::CdiDeviceName;

/// Returns why a field cannot have a value; `None` if it can.
pub(crate) fn impossible(key: &Key, value: &FieldValue) -> Option<&'static str> {
    if matches!(value, FieldValue::Text(text) if text.contains('\0')) {
        return Some("a text with a NUL character");
    }
    let reason = match (key, value) {
        (Key::Field(row), FieldValue::Number(number)) => number_of(row.name, *number),
        (Key::Field(row), FieldValue::Text(text))
            if ["cpu.cpus", "cpu.mems"].contains(&row.name) =>
        {
            (!is_list(text)).then_some("no list of numbers, such as 0-3,8")
        }
        (Key::Entry(Group::Hugepages, _), FieldValue::Number(number)) if *number < 0 => {
            Some("cannot be below zero")
        }
        _ => None,
    };
    reason.or_else(|| match key {
        Key::Field(_) => None,
        Key::Entry(group, name) => entry(*group, name),
    })
}

fn number_of(field: &str, number: i64) -> Option<&'static str> {
    match field {
        "memory.swappiness" if !(0..=100).contains(&number) => Some("is from 0 to 100"),
        "cpu.shares" if number < 0 => Some("cannot be below zero"),
        "cpu.period" if !(1000..=1_000_000).contains(&number) => Some("is from 1ms to 1s"),
        "cpu.quota" if (0..1000).contains(&number) => Some("is at least 1ms, or unlimited"),
        "oom_score_adj" if !(-1000..=1000).contains(&number) => Some("is from -1000 to 1000"),
        "memory.limit" | "memory.reservation" | "memory.swap" | "pids.limit" | "cpu.quota"
            if number < -1 =>
        {
            Some("is from 0 on, or unlimited")
        }
        _ => None,
    }
}

/// Returns why a group cannot have an entry of this name, or path.
pub(crate) fn entry(group: Group, name: &str) -> Option<&'static str> {
    if name.contains('\0') {
        return Some("a name with a NUL character");
    }
    match group {
        Group::Env if name.contains('=') => Some("a variable's name has no ="),
        Group::Unified if name.contains('/') || !name.contains('.') => {
            Some("no file of a cgroup, such as memory.high")
        }
        Group::Hugepages if !is_page_size(name) => Some("no page size, such as 2MB"),
        Group::Rlimits if !RLIMITS.contains(&name) => Some("no limit of setrlimit(2)"),
        Group::Mounts | Group::Devices if !name.starts_with('/') => Some("no absolute path"),
        Group::Cdi if CdiDeviceName::parse(name).is_err() => Some("no vendor/class=name"),
        _ => None,
    }
}

/// Whether a text is a list of numbers and ranges, as files of cpusets have it.
fn is_list(text: &str) -> bool {
    let number = |text: &str| text.trim().parse::<u32>().ok();
    text.split(',').all(|part| match part.split_once('-') {
        Some((first, last)) => number(first).is_some_and(|f| number(last).is_some_and(|l| f <= l)),
        None => number(part).is_some(),
    })
}

/// Whether a text is a size of pages as in the names of the kernel's files.
fn is_page_size(text: &str) -> bool {
    let number = ["KB", "MB", "GB"].iter().find_map(|unit| text.strip_suffix(unit));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}
