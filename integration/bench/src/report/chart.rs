//! Writes the result as a chart: for each row with a target, the share of the target that is used.

use crate::row::Row;

/// Height of a row. Lengths are in units of the SVG.
const ROW_HEIGHT: usize = 22;
/// Width of the labels at the left, and of the figures at the right.
const LABELS: usize = 470;
const FIGURES: usize = 170;
/// Width of a bar that uses the whole target.
const TARGET: f64 = 150.0;
/// Share of the target at which a bar is cut.
const MAX_SHARE: f64 = 3.0;

/// Returns the chart as SVG.
pub(crate) fn chart(rows: &[Row]) -> String {
    let rows: Vec<_> = rows.iter().filter_map(|row| Some((row, row.used()?))).collect();
    let bars = (TARGET * MAX_SHARE) as usize;
    // Two rows above the bars for the title, and an empty row below.
    let (width, height) = (LABELS + bars + FIGURES, (rows.len() + 3) * ROW_HEIGHT);
    let line = LABELS + TARGET as usize;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n\
         <text x=\"{LABELS}\" y=\"{ROW_HEIGHT}\">share of the target that is used; \
         right of the line the target is missed</text>\n"
    );
    for (number, (row, used)) in rows.iter().enumerate() {
        let top = (number + 2) * ROW_HEIGHT;
        let baseline = top + 12;
        let length = (TARGET * used.clamp(0.0, MAX_SHARE)).round();
        let color = if *used <= 1.0 { "#2a8a4a" } else { "#c8502a" };
        let (what, figure) = (escaped(&row.what), escaped(&row.figure()));
        let (end, limit) = (LABELS as f64 + length + 6.0, escaped(&row.limit()));
        let label = LABELS - 8;
        text.push_str(&format!(
            "<text x=\"{label}\" y=\"{baseline}\" text-anchor=\"end\">{what}</text>\n\
             <rect x=\"{LABELS}\" y=\"{top}\" width=\"{length}\" height=\"16\" fill=\"{color}\"/>\n\
             <text x=\"{end}\" y=\"{baseline}\">{figure} ({limit})</text>\n"
        ));
    }
    let (top, bottom) = (ROW_HEIGHT + 10, height - ROW_HEIGHT / 2);
    text.push_str(&format!(
        "<line x1=\"{line}\" y1=\"{top}\" x2=\"{line}\" y2=\"{bottom}\" stroke=\"black\"/>\n\
         </svg>\n"
    ));
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('`', "")
}
