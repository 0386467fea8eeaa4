//! Draws p99 of all ways, of the floor, on a logarithmic scale.

use super::tables::{LATENCY, Row, Table, Verdict, figure};

/// Height of a row. Lengths are in units of the SVG.
const ROW_HEIGHT: usize = 18;
/// Width of the labels at the left, of the scale, and of the figures at the right.
const LABELS: usize = 220;
const SCALE: f64 = 480.0;
const FIGURES: usize = 230;
/// Ends of the scale, as powers of ten. What is beyond is drawn at the end.
const ENDS: (f64, f64) = (-0.5, 4.0);

/// Returns the picture as SVG.
pub(crate) fn chart(tables: &[Table]) -> String {
    // Each table has a line with its title, and an empty one after it.
    let lines: usize = tables.iter().map(|table| rows(table).count() + 2).sum();
    let (width, height) = (LABELS + SCALE as usize + FIGURES, (lines + 3) * ROW_HEIGHT);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LABELS}\" y=\"{ROW_HEIGHT}\">p99, of the same processes pinned without \
         containers: medians and their intervals of 95 %</text>\n"
    );
    let bottom = height - ROW_HEIGHT;
    for ratio in [1.0, 10.0, 100.0, 1000.0, 10000.0] {
        let (x, top) = (position(ratio), 2 * ROW_HEIGHT);
        text.push_str(&format!(
            "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#ccc\"/>\n\
             <text x=\"{x:.1}\" y=\"{top}\" text-anchor=\"middle\" fill=\"#666\">{ratio}</text>\n"
        ));
    }
    let (x, top) = (position(LATENCY), 2 * ROW_HEIGHT + 4);
    text.push_str(&format!(
        "<line x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#2a8a4a\" \
         stroke-dasharray=\"3 3\"/>\n"
    ));
    let mut line = 3;
    for table in tables {
        let (y, title) = (line * ROW_HEIGHT, table.title());
        text.push_str(&format!("<text x=\"8\" y=\"{y}\" font-weight=\"bold\">{title}</text>\n"));
        for row in rows(table) {
            line += 1;
            text.push_str(&drawn(row, line * ROW_HEIGHT));
        }
        line += 2;
    }
    text.push_str("</svg>\n");
    text
}

/// Rows that have a quotient.
fn rows(table: &Table) -> impl Iterator<Item = &Row> {
    table.rows.iter().filter(|row| row.p99_ratio.is_some())
}

/// A row whose text has this baseline.
fn drawn(row: &Row, baseline: usize) -> String {
    let Some(ratio) = row.p99_ratio else { return String::new() };
    let (label, middle) = (LABELS - 8, baseline - 4);
    let [x, low, high] = [ratio.value, ratio.low, ratio.high].map(position);
    let color = match row.verdict() {
        Some(Verdict::Yes) => "#2a8a4a",
        Some(Verdict::No) => "#c8502a",
        Some(Verdict::Undecided) => "#b08a20",
        None => "#666",
    };
    let work = row.work.map(|work| format!(", work {}", figure(work.value))).unwrap_or_default();
    let (title, value) = (row.way.title().replace('`', ""), figure(ratio.value));
    let right = high.max(x) + 8.0;
    format!(
        "<text x=\"{label}\" y=\"{baseline}\" text-anchor=\"end\">{title}</text>\n\
         <line x1=\"{low:.1}\" y1=\"{middle}\" x2=\"{high:.1}\" y2=\"{middle}\" stroke=\"{color}\" \
         stroke-width=\"3\"/>\n\
         <circle cx=\"{x:.1}\" cy=\"{middle}\" r=\"4\" fill=\"{color}\"/>\n\
         <text x=\"{right:.1}\" y=\"{baseline}\">{value}{work}</text>\n"
    )
}

/// Horizontal position of a quotient.
fn position(ratio: f64) -> f64 {
    let (first, last) = ENDS;
    let power = ratio.max(f64::MIN_POSITIVE).log10().clamp(first, last);
    LABELS as f64 + (power - first) / (last - first) * SCALE
}
