//! Tables for people: columns as wide as their content, wrapped to the width of a terminal. What is
//! not a terminal gets one line per row, for tools that read lines.
//!
//! Tables have no colour. The help of clap has, on a terminal, unless `NO_COLOR` is set.

use clap::ValueEnum;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets::NOTHING,
};
use nri_values::printable;
use std::io::{self, IsTerminal, Write};

/// Columns between two cells of a row.
pub(crate) const GAP: u16 = 2;

/// Form of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableForm {
    /// All columns
    Wide,
}

/// A table without lines between its cells.
pub(crate) struct TextTable {
    table: Table,
    /// Columns on the left that stay free.
    indent: u16,
}

impl TextTable {
    /// Creates a table for standard output; `indent` columns on its left stay free.
    pub(crate) fn new(indent: u16) -> Self {
        Self::with_width(indent, terminal_width())
    }

    /// Creates a table whose rows are one line each, however wide they are.
    pub(crate) fn unwrapped() -> Self {
        Self::with_width(0, None)
    }

    /// Creates a table of that width.
    pub(crate) fn with_width(indent: u16, width: Option<u16>) -> Self {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if let Some(width) = width {
            // The last column also has a gap, which is not printed.
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width.saturating_sub(indent).saturating_add(GAP));
        }
        Self { table, indent }
    }

    /// Adds a row. Characters that control terminals are replaced.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        let cells = cells.into_iter().map(|cell| printable(cell.as_ref()).into_owned());
        self.table.add_row(cells.collect::<Vec<_>>());
    }

    /// Aligns a column to the right, for numbers.
    pub(crate) fn align_right(&mut self, column: usize) {
        if let Some(column) = self.table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }

    /// Wraps the cells of one column only, to `at_least` columns of the terminal. A narrower
    /// terminal wraps the lines.
    pub(crate) fn wrap_only(&mut self, column: usize, at_least: u16) {
        for (index, found) in self.table.column_iter_mut().enumerate() {
            found.set_constraint(if index == column {
                ColumnConstraint::LowerBoundary(Width::Fixed(at_least.saturating_add(GAP)))
            } else {
                ColumnConstraint::ContentWidth
            });
        }
    }

    /// Sets the widths of the first columns, whatever is in them, so that the rows of several
    /// tables are below one another.
    pub(crate) fn fix_widths(&mut self, widths: &[u16]) {
        for (column, width) in self.table.column_iter_mut().zip(widths) {
            let width = Width::Fixed(width.saturating_add(GAP));
            column.set_constraint(ColumnConstraint::Absolute(width));
        }
    }

    /// Writes the table.
    ///
    /// # Errors
    /// `out` cannot be written to.
    pub(crate) fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        for column in self.table.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        let indent = usize::from(self.indent);
        for line in self.table.lines() {
            writeln!(out, "{:indent$}{}", "", line.trim_end())?;
        }
        Ok(())
    }
}

/// Writes a text after `prefix`; on a terminal of this width, further lines begin below the text.
///
/// # Errors
/// `out` cannot be written to.
pub(crate) fn write_wrapped(
    out: &mut impl Write,
    prefix: &str,
    text: &str,
    width: Option<u16>,
) -> io::Result<()> {
    let indent = text_width(prefix).try_into().unwrap_or_default();
    let mut table = TextTable::with_width(indent, width);
    table.row([text]);
    let mut lines = Vec::new();
    table.write(&mut lines)?;
    out.write_all(prefix.as_bytes())?;
    // The first line is indented as the others are.
    out.write_all(lines.get(usize::from(indent)..).unwrap_or(b"\n"))
}

/// Returns the number of columns of a cell on a terminal.
pub(crate) fn text_width(cell: &str) -> usize {
    // Names of plugins and states have no wide characters; a wrong width wraps a line.
    printable(cell).chars().count()
}

/// Returns the width of the terminal; `None` if standard output is not a terminal.
pub(crate) fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    let size = rustix::termios::tcgetwinsize(&stdout).ok().filter(|_| stdout.is_terminal())?;
    Some(size.ws_col).filter(|width| *width > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(width: Option<u16>) -> String {
        let mut table = TextTable::with_width(2, width);
        table.row(["FIELD", "N", "FILE"]);
        table.row(["pids.limit", "100", "/sys/fs/cgroup/a/b/c/d/pids.max"]);
        table.row(["memory.limit", "7", "\x1b[2J"]);
        table.align_right(1);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_row_is_one_line_unless_a_terminal_is_narrower() {
        let expected = "  FIELD           N  FILE\n\
                        \u{20} pids.limit    100  /sys/fs/cgroup/a/b/c/d/pids.max\n\
                        \u{20} memory.limit    7  \u{fffd}[2J\n";
        assert_eq!(text(None), expected);
        assert_eq!(text(Some(200)), expected);
        let narrow = text(Some(40));
        assert!(narrow.lines().count() > 3, "{narrow}");
        assert!(narrow.lines().all(|line| line.chars().count() <= 40), "{narrow}");
        let file: String =
            narrow.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert!(file.contains("/sys/fs/cgroup/a/b/c/d/pids.max"), "{narrow}");
    }

    #[test]
    fn a_text_is_wrapped_below_itself() {
        let wrapped = |text: &str, width| {
            let mut out = Vec::new();
            write_wrapped(&mut out, "info  ", text, width).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(wrapped("one two three", None), "info  one two three\n");
        assert_eq!(wrapped("one two three", Some(14)), "info  one two\n      three\n");
        assert_eq!(wrapped("", Some(14)), "info  \n");
    }

    #[test]
    fn a_table_may_wrap_one_column_only() {
        let mut table = TextTable::with_width(0, Some(20));
        table.row(["NAME", "STATE", "EVENTS"]);
        table.row(["logger", "active", "CREATE START STOP"]);
        table.wrap_only(2, 12);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let expected = "NAME    STATE   EVENTS\n\
                        logger  active  CREATE START\n\
                        \u{20}               STOP\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
