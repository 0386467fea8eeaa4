//! Merges an edited text with its original, so that unchanged lines keep their line ends, and
//! comments stay when the values beside them are removed.

use similar::{Algorithm, DiffOp, capture_diff_slices};
use std::ops::Range;

/// Returns the new text. Lines that are also in the old text are copied from there with their line
/// ends. Comment lines that only the old text has are kept, with blank lines above.
pub(super) fn merge(old: &str, new: &str) -> String {
    let newline = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let old: Vec<&str> = old.split_inclusive('\n').collect();
    let old_bare: Vec<&str> = old.iter().map(|line| without_newline(line)).collect();
    let new_bare: Vec<&str> = new.split_inclusive('\n').map(without_newline).collect();
    let mut merged: Vec<String> = Vec::new();
    for op in capture_diff_slices(Algorithm::Myers, &old_bare, &new_bare) {
        let (old_range, new_range): (Range<usize>, Range<usize>) = (op.old_range(), op.new_range());
        if matches!(op, DiffOp::Equal { .. }) {
            merged.extend(old[old_range].iter().map(|line| (*line).to_owned()));
            continue;
        }
        let is_comment = |line: &&str| line.trim_start().starts_with('#');
        let end = old[old_range.clone()].iter().rposition(is_comment).map_or(0, |last| last + 1);
        let kept = old[old_range].iter().take(end).filter(|l| l.trim().is_empty() || is_comment(l));
        merged.extend(kept.map(|line| (*line).to_owned()));
        merged.extend(new_bare[new_range].iter().map(|line| format!("{line}{newline}")));
    }
    let last = merged.len().saturating_sub(1);
    for line in merged[..last].iter_mut().filter(|line| !line.ends_with('\n')) {
        line.push_str(newline);
    }
    merged.concat()
}

fn without_newline(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}
