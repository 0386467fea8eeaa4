//! Writes the tables as Markdown.

use super::tables::{Estimate, LATENCY, RUNS, Row, Table, Verdict, figure};
use crate::cell::{Named, Way};
use serde_json::Value;

/// What the columns mean.
const COLUMNS: &str = "\
Latencies are medians of the runs, in milliseconds. *p99 / floor* is the median of the quotients
within rounds, with the interval in which it is with a probability of 95 % (sign test): the floor is
the same processes without containers, pinned with `taskset`. *Work* is what the neighbours do in a
second, as a part of what they do where nothing is done. The goal is a p99 of at most 1.2 of the
floor, and 0.95 of the work; it is *open* where an interval contains its limit.
";

/// Returns the document.
pub(crate) fn document(runs: &[Value], tables: &[Table]) -> String {
    let mut text = String::from(
        "# A service beside its neighbours\n\nWritten by `make isolation` from the raw figures in \
         `isolation.jsonl`.\n\n",
    );
    for (n, run) in runs.iter().enumerate() {
        if runs.len() > 1 {
            text.push_str(&format!("Part {} of {}:\n\n", n + 1, runs.len()));
        }
        for (name, value) in run["machine"].as_object().into_iter().flatten() {
            text.push_str(&format!("* {name}: {}\n", value.as_str().unwrap_or_default()));
        }
        for name in ["seed", "runs", "seconds"] {
            text.push_str(&format!("* {name}: {}\n", run[name]));
        }
        text.push('\n');
    }
    text.push_str(&format!("{COLUMNS}\n"));
    runs.iter().for_each(|run| text.push_str(&other_work(run)));
    text.push_str(&floor(tables));
    text.push_str("\n![p99 of all ways, of the floor](isolation.svg)\n\n## p99, of the floor\n\n");
    text.push_str(&overview(tables, &|row| row.p99_ratio));
    text.push_str("\n## Work of the neighbours\n\n");
    text.push_str(&overview(tables, &|row| row.work));
    for table in tables {
        text.push_str(&format!("\n## {}\n\n{}", table.title(), rows(table)));
    }
    text
}

/// Load of the machine before the run from which on figures say little about a quiet machine.
const BUSY: f64 = 0.5;

/// Says that the machine had other work.
fn other_work(run: &Value) -> String {
    let load = run["machine"]["load before"].as_str().and_then(|load| load.parse::<f64>().ok());
    let Some(load) = load.filter(|load| *load > BUSY) else { return String::new() };
    wrapped(&format!(
        "**The machine had other work**: its load before the run was {load}. The figures are those \
         of a busy machine."
    )) + "\n"
}

/// Says whether the floor is steady enough to judge the goal.
fn floor(tables: &[Table]) -> String {
    let runs = tables.iter().flat_map(|table| &table.rows).map(|row| row.runs).min().unwrap_or(0);
    if runs < RUNS {
        return wrapped(&format!(
            "The least number of runs of a row is {runs}. With fewer than {RUNS}, an interval is \
             that of all runs, which is less than 95 %: nothing is said of the floor then, and \
             goals stay open."
        ));
    }
    let of = |table: &Table| table.floor().map(|floor| (table.title(), floor));
    let all: Vec<(String, Estimate)> = tables.iter().filter_map(of).collect();
    if all.is_empty() {
        return "The floor was not measured twice: how much it varies is not known.\n".to_owned();
    }
    let wide: Vec<_> = all.iter().filter(|(_, floor)| floor.width() > LATENCY).collect();
    if wide.is_empty() {
        let widest = all.iter().map(|(_, floor)| floor.width()).fold(1.0, f64::max);
        return wrapped(&format!(
            "The floor is steady: no interval of p99 of floor against floor is wider than \
             {LATENCY} (the widest is {}).",
            figure(widest)
        ));
    }
    let (wide_ones, count) = (wide.len(), all.len());
    let mut text = wrapped(&format!(
        "**The floor itself varies**: for {wide_ones} of {count} pairs, the interval of p99 of \
         floor against floor is wider than {LATENCY}. This machine cannot show whether a way is \
         within {LATENCY} of the floor for these pairs:"
    ));
    text.push('\n');
    for (title, floor) in wide {
        text.push_str(&format!("* {title}: {floor}, width {}\n", figure(floor.width())));
    }
    text
}

/// A paragraph with lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 {
            let fits = width + 1 + length <= 100;
            lines.push(if fits { ' ' } else { '\n' });
            width = if fits { width + 1 } else { 0 };
        }
        lines.push_str(word);
        width += length;
    }
    lines + "\n"
}

/// A table of all pairs and ways.
fn overview(tables: &[Table], of: &dyn Fn(&Row) -> Option<Estimate>) -> String {
    let is_there =
        |way: &Way| tables.iter().any(|table| table.row(*way).is_some_and(|row| of(row).is_some()));
    let ways: Vec<Way> = Way::ALL.iter().copied().filter(is_there).collect();
    let mut text = String::from("| |");
    ways.iter().for_each(|way| text.push_str(&format!(" {} |", way.title())));
    text.push_str(&format!("\n|---|{}\n", "---|".repeat(ways.len())));
    for table in tables {
        text.push_str(&format!("| {} |", table.title()));
        for way in &ways {
            let cell = table.row(*way).and_then(of).map(|estimate| estimate.to_string());
            text.push_str(&format!(" {} |", cell.unwrap_or_default()));
        }
        text.push('\n');
    }
    text.replace("|  |", "| |")
}

/// The table of a pair.
fn rows(table: &Table) -> String {
    let mut text = String::from(
        "| | p50 | p99 | p99.9 | max | p99 / floor | p99.9 / floor | work | goal | runs |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for row in &table.rows {
        let estimate = |estimate: Option<Estimate>| {
            estimate.map(|estimate| estimate.to_string()).unwrap_or_default()
        };
        let goal = match row.verdict() {
            Some(Verdict::Yes) => "yes",
            Some(Verdict::No) => "**no**",
            Some(Verdict::Undecided) => "open",
            None => "",
        };
        let latencies = [row.p50, row.p99, row.p999, row.max].map(figure).join(" | ");
        let mut runs = row.runs.to_string();
        if row.unserved > 0 {
            runs.push_str(&format!(", {} too slow to serve all", row.unserved));
        }
        let (title, work) = (row.way.title(), estimate(row.work));
        let (p99, p999) = (estimate(row.p99_ratio), estimate(row.p999_ratio));
        let line =
            format!("| {title} | {latencies} | {p99} | {p999} | {work} | {goal} | {runs} |\n");
        // Two neighbouring cells may be empty.
        text.push_str(&line.replace("|  |", "| |").replace("|  |", "| |"));
    }
    text
}
