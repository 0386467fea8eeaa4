//! Output of the demo: prints the results and counts them.

use std::{
    cell::Cell,
    io::{IsTerminal, stdout},
    process::ExitCode,
};

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Row {
    /// A cell for each column.
    pub(crate) cells: Vec<String>,
    /// Whether the container sees the value set last.
    pub(crate) matches: bool,
}

/// The printed page, with the numbers of good and bad results.
#[derive(Debug)]
pub(crate) struct Page {
    has_colors: bool,
    bad: Cell<usize>,
    good: Cell<usize>,
}

impl Page {
    pub(crate) fn new() -> Self {
        let allowed = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
        Self {
            has_colors: allowed && stdout().is_terminal(),
            bad: Cell::new(0),
            good: Cell::new(0),
        }
    }

    /// Prints an introduction.
    pub(crate) fn text(&self, text: &str) {
        println!("\n{text}");
    }

    /// Prints a heading.
    pub(crate) fn section(&self, title: &str) {
        println!("\n{}", self.paint("1", title));
    }

    /// Prints a table with aligned columns; each row ends with `ok` or `WRONG`.
    pub(crate) fn table(&self, heads: &[&str], rows: &[Row]) {
        let width = |n: usize| {
            rows.iter()
                .map(|r| r.cells[n].chars().count())
                .chain([heads[n].len()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..heads.len()).map(width).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded: Vec<_> =
                cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            format!("  {}", padded.join("  "))
        };
        println!("{}", self.paint("2", line(&mut heads.iter().copied()).trim_end()));
        for row in rows {
            println!(
                "{}  {}",
                line(&mut row.cells.iter().map(String::as_str)),
                self.mark(row.matches)
            );
        }
    }

    /// Prints a fact, followed by `ok` or `WRONG`.
    pub(crate) fn result(&self, what: &str, text: &str, good: bool) {
        println!("  {what}: {text}  {}", self.mark(good));
    }

    /// Prints a list, four items per line, followed by `ok` or `WRONG`.
    pub(crate) fn list(&self, what: &str, items: &[String], good: bool) {
        println!("  {what}:");
        for part in items.chunks(4) {
            println!("    {}", part.join(", "));
        }
        println!("    in this order  {}", self.mark(good));
    }

    /// Prints the output of a command, followed by `ok` or `WRONG`.
    pub(crate) fn lines(&self, what: &str, text: &str, good: bool) {
        println!("  {what}:  {}", self.mark(good));
        for line in text.lines() {
            println!("    {line}");
        }
    }

    /// Counts a result; returns `ok` or `WRONG`.
    fn mark(&self, good: bool) -> String {
        let count = if good { &self.good } else { &self.bad };
        count.set(count.get() + 1);
        if good { self.paint("32", "ok") } else { self.paint("31", "WRONG") }
    }

    fn paint(&self, code: &str, text: &str) -> String {
        if self.has_colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Prints the numbers of good and bad results. The exit code is 0 if there are results and all
    /// are good.
    pub(crate) fn end(&self) -> ExitCode {
        let (good, bad) = (self.good.get(), self.bad.get());
        println!("\n{good} ok, {bad} wrong");
        if bad == 0 && good > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
