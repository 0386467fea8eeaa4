//! Writes the result to files: JSON for programs, a Markdown table for people, an SVG chart.

mod chart;
mod markdown;

use crate::row::{Row, Target};
use nri_bench::machine;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// Writes `results.json`, `results.md` and `results.svg`.
pub(crate) fn write(dir: &Path, description: &[(&'static str, String)], rows: &[Row]) {
    let write = |name: &str, text: String| {
        let file = dir.join(name);
        fs::write(&file, text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    };
    fs::create_dir_all(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
    let results = json!({
        "machine": machine::json(description),
        "rows": rows.iter().map(row).collect::<Vec<_>>(),
    });
    write("results.json", format!("{results:#}\n"));
    write("results.md", markdown::table(description, rows));
    write("results.svg", chart::chart(rows));
}

fn row(row: &Row) -> Value {
    let (at_most, at_least) = match row.target {
        Some(Target::AtMost(limit)) => (Some(limit), None),
        Some(Target::AtLeast(limit)) => (None, Some(limit)),
        None => (None, None),
    };
    json!({
        "what": row.what, "peer": row.peer, "here": row.here, "value": row.value,
        "unit": row.unit, "at_most": at_most, "at_least": at_least, "met": row.is_met(),
        "samples": row.samples,
    })
}
