//! Writes the result as a Markdown table.

use crate::row::Row;

/// Returns the description of the machine and the table.
pub(crate) fn table(machine: &[(&'static str, String)], rows: &[Row]) -> String {
    let mut text = String::from("# Results\n\nWritten by `make bench`.\n\n");
    for (name, value) in machine {
        text.push_str(&format!("* {name}: {value}\n"));
    }
    text.push_str("\n| what | peer | here | figure | target | met | samples |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for row in rows {
        let met = row.is_met().map_or("", |met| if met { "yes" } else { "**no**" });
        let (what, peer, here, figure) = (&row.what, &row.peer, &row.here, row.figure());
        let (limit, samples) = (row.limit(), row.samples);
        let line = format!("| {what} | {peer} | {here} | {figure} | {limit} | {met} | {samples} |");
        text.push_str(&line.replace("|  |", "| |"));
        text.push('\n');
    }
    text
}
