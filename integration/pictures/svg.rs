//! Draws the screen of a terminal as an SVG.

use std::fmt::Write;
use vt100::{Cell, Color, Screen};

/// Width and height of a character, in pixels.
const CELL: (f32, f32) = (8.4, 18.0);
/// Space around the text.
const MARGIN: f32 = 12.0;
/// The colours 0 to 15 of a terminal.
const PALETTE: [&str; 16] = [
    "#3b4252", "#bf616a", "#a3be8c", "#ebcb8b", "#81a1c1", "#b48ead", "#88c0d0", "#e5e9f0",
    "#4c566a", "#bf616a", "#a3be8c", "#ebcb8b", "#81a1c1", "#b48ead", "#8fbcbb", "#eceff4",
];
const FOREGROUND: &str = "#e5e9f0";
const BACKGROUND: &str = "#20242c";

/// Look of a run of cells.
#[derive(PartialEq)]
struct Style {
    foreground: String,
    background: Option<String>,
    is_bold: bool,
}

impl Style {
    fn of(cell: &Cell) -> Self {
        let (mut foreground, mut background) = (color(cell.fgcolor()), color(cell.bgcolor()));
        if cell.inverse() {
            (foreground, background) = (
                Some(background.unwrap_or_else(|| BACKGROUND.to_owned())),
                Some(foreground.unwrap_or_else(|| FOREGROUND.to_owned())),
            );
        }
        Self {
            foreground: foreground.unwrap_or_else(|| FOREGROUND.to_owned()),
            background,
            is_bold: cell.bold(),
        }
    }
}

/// Returns a colour of the terminal; `None` is the default.
fn color(color: Color) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Idx(n) => Some(PALETTE.get(usize::from(n)).unwrap_or(&FOREGROUND).to_string()),
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
    }
}

/// Returns the picture: the command, and the lines of the screen up to the last one with text.
pub(crate) fn draw(screen: &Screen, command: &str) -> String {
    let (rows, columns) = screen.size();
    let last = screen.rows(0, columns).enumerate().filter(|(_, text)| !text.trim().is_empty());
    let used = last.last().map_or(0, |(row, _)| row + 1).min(usize::from(rows));
    let width = MARGIN.mul_add(2.0, f32::from(columns) * CELL.0);
    let lines = u16::try_from(used + 1).unwrap_or(rows);
    let height = MARGIN.mul_add(2.0, f32::from(lines) * CELL.1);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\"\n  \
         font-family=\"monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"{BACKGROUND}\"/>\n"
    );
    let mut text = |line: u16, column: u16, text: &str, style: &Style| {
        let x = f32::from(column).mul_add(CELL.0, MARGIN);
        let y = f32::from(line).mul_add(CELL.1, MARGIN);
        let cells = u16::try_from(text.chars().count()).unwrap_or(columns);
        let length = f32::from(cells) * CELL.0;
        if let Some(background) = &style.background {
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{}\"\n  \
                 fill=\"{background}\"/>",
                CELL.1
            );
        }
        if text.trim().is_empty() {
            return;
        }
        let bold = if style.is_bold { " font-weight=\"bold\"" } else { "" };
        let escaped = text.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" textLength=\"{length:.1}\" fill=\"{}\"{bold}\n  \
             xml:space=\"preserve\">{escaped}</text>",
            y + 14.0,
            style.foreground
        );
    };
    let prompt = Style { foreground: PALETTE[2].to_owned(), background: None, is_bold: true };
    text(0, 0, &format!("# {command}"), &prompt);
    for row in 0..u16::try_from(used).unwrap_or(rows) {
        let mut run: Option<(u16, String, Style)> = None;
        for column in 0..columns {
            let Some(cell) = screen.cell(row, column) else { continue };
            let style = Style::of(cell);
            let content = if cell.has_contents() { cell.contents() } else { " " };
            match &mut run {
                Some((_, line, current)) if *current == style => line.push_str(content),
                _ => {
                    if let Some((start, line, style)) = run.take() {
                        text(row + 1, start, &line, &style);
                    }
                    run = Some((column, content.to_owned(), style));
                }
            }
        }
        if let Some((start, line, style)) = run {
            let line = if style.background.is_none() { line.trim_end() } else { &line };
            text(row + 1, start, line, &style);
        }
    }
    svg + "</svg>\n"
}

/// Returns a picture with the style and the body of a page, whose elements must all be closed.
pub(crate) fn embed(html: &str, width: &str, height: &str) -> String {
    let part = |start: &str, end: &str| {
        let (_, rest) = html.split_once(start).unwrap_or_else(|| panic!("no {start} in the page"));
        rest.split_once(end).unwrap_or_else(|| panic!("no {end} in the page")).0
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\">\n\
         <foreignObject width=\"{width}\" height=\"{height}\">\n\
         <body xmlns=\"http://www.w3.org/1999/xhtml\">\n<style>{}</style>\n{}</body>\n\
         </foreignObject>\n</svg>\n",
        part("<style>", "</style>"),
        part("<body>", "</body>").replace("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ")
    )
}
