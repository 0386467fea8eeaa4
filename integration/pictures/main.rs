//! `picture COLUMNS ROWS SECONDS FILE COMMAND...`: runs a command in a terminal and draws what the
//! screen shows as an SVG. A command that runs for longer than SECONDS is ended by the key `q`. The
//! first line of the picture is the command, as it was typed.
//!
//! `picture page WIDTH HEIGHT FILE <PAGE`: puts an HTML page into an SVG, which a browser draws as
//! it draws the page.

mod svg;

use nri_integration::Terminal;
use std::{
    fs, io,
    process::{Command, ExitCode},
    thread,
    time::{Duration, Instant},
};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [page, width, height, file] = arguments.as_slice()
        && page == "page"
    {
        let html = io::read_to_string(io::stdin()).expect("a page on standard input");
        fs::write(file, svg::embed(&html, width, height)).expect("FILE can be written");
        return ExitCode::SUCCESS;
    }
    let [columns, rows, seconds, file, command @ ..] = arguments.as_slice() else {
        eprintln!("usage: picture COLUMNS ROWS SECONDS FILE COMMAND...");
        return ExitCode::from(2);
    };
    let number = |text: &str| text.parse::<u16>().expect("sizes and seconds are numbers");
    let (columns, rows) = (number(columns), number(rows));
    // The program must see the size from its start.
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("stty rows {rows} cols {columns} && exec \"$@\"")).arg("sh");
    shell.args(command).env("TERM", "xterm-256color");
    let mut terminal = Terminal::run(&shell);
    let deadline = Instant::now() + Duration::from_secs(u64::from(number(seconds)));
    while !terminal.has_ended() && Instant::now() < deadline {
        thread::sleep(Duration::from_millis(20));
    }
    let mut parser = vt100::Parser::new(rows, columns, 0);
    parser.process(terminal.text().as_bytes());
    if !terminal.has_ended() {
        terminal.write("q");
    }
    let code = terminal.wait_for_exit();
    if code != Some(0) {
        eprintln!("{}: exit code {code:?}\n{}", command.join(" "), parser.screen().contents());
        return ExitCode::FAILURE;
    }
    fs::write(file, svg::draw(parser.screen(), &command.join(" "))).expect("FILE can be written");
    ExitCode::SUCCESS
}
