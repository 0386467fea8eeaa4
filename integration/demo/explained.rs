//! Compares the last values of `nrictl explain` with the rows of the table.

use crate::page::Row;
use serde_json::Value;

/// Returns the fields whose last value in `explain` is that of a row which matches the container,
/// and descriptions of the others. Rows that no plugin set are not in `explain`.
pub(crate) fn compare(explained: &Value, rows: &[Row]) -> (Vec<String>, Vec<String>) {
    let (mut equal, mut different) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| row.cells[2..4].iter().any(|cell| !cell.is_empty())) {
        let label = row.cells[0].as_str();
        let Some(field) = field_name(label) else { continue };
        let fields = explained["fields"].as_array().into_iter().flatten();
        let after = fields.filter(|f| f["field"] == field).map(|f| text(label, &f["after"])).next();
        // The value set last; the row tells whether the container has it.
        let set = row.cells[1..4].iter().rfind(|cell| !cell.is_empty());
        if row.matches && after.as_ref() == set {
            equal.push(field);
        } else {
            let after = after.unwrap_or_else(|| "nothing".to_owned());
            different.push(format!("{field} ends with {after}"));
        }
    }
    (equal, different)
}

/// Name of a row in `explain`; `None` for hooks, whose row has their stage, and for variables,
/// whose values are masked.
fn field_name(label: &str) -> Option<String> {
    let name = match label {
        "cpuset.cpus" => "cpu.cpus",
        "cpu shares" => "cpu.shares",
        "cpu quota" => "cpu.quota",
        "memory limit" => "memory.limit",
        "pids limit" => "pids.limit",
        "hugepages 2MB" => "hugepageLimits[2MB]",
        "unified memory.high" => "unified[memory.high]",
        "args" => "args",
        "rlimit nofile" => "rlimits[RLIMIT_NOFILE]",
        "device /dev/extra" => "devices[/dev/extra]",
        "mount /data" => "mounts[/data]",
        "annotation (state)" => "annotations[example.org/by]",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Returns a value of `explain` as its row has it.
fn text(label: &str, after: &Value) -> String {
    match label {
        "hugepages 2MB" => after["limit"].to_string(),
        "rlimit nofile" => format!("{} {}", after["soft"], after["hard"]),
        "device /dev/extra" => format!(
            "{} {}:{} {:o}",
            after["type"].as_str().unwrap_or_default(),
            after["major"],
            after["minor"],
            after["fileMode"].as_u64().unwrap_or_default()
        ),
        "mount /data" => words(&after["options"]),
        _ => match after {
            Value::String(text) => text.clone(),
            Value::Array(_) => words(after),
            other => other.to_string(),
        },
    }
}

/// Elements of a list, separated by spaces.
fn words(list: &Value) -> String {
    let words = list.as_array().into_iter().flatten().filter_map(Value::as_str);
    words.collect::<Vec<_>>().join(" ")
}
