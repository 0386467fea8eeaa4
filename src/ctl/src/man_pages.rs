//! Man pages, from the definitions of the command line: `nrictl.8`, and one for each subcommand.
//!
//! The pages have no date, so that two builds give the same bytes.

use crate::exit_code::EXIT_CODES;
use clap::Command;
use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use std::{
    fs,
    io::{self, Write},
    path::Path,
};

/// Section of the manual: administration.
const SECTION: &str = "8";

/// Writes the man pages into a directory.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(command: Command, dir: &Path) -> io::Result<()> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    for subcommand in command.get_subcommands().filter(|s| !s.is_hide_set()) {
        let mut page = begin(subcommand)?;
        if subcommand.get_after_help().is_some() {
            man(subcommand).render_extra_section(&mut page)?;
        }
        end(page, subcommand, dir)?;
    }
    let mut page = begin(&command)?;
    man(&command).render_subcommands_section(&mut page)?;
    end(page, &command, dir)
}

fn man(command: &Command) -> Man {
    Man::new(command.clone())
        .section(SECTION)
        .source(concat!("nri-container-runtime ", env!("CARGO_PKG_VERSION")))
        .manual("System administration")
}

/// Renders the sections with which all pages begin.
fn begin(command: &Command) -> io::Result<Vec<u8>> {
    let man = man(command);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    Ok(page)
}

/// Appends the exit codes, and writes the page to its file.
fn end(mut page: Vec<u8>, command: &Command, dir: &Path) -> io::Result<()> {
    let mut roff = Roff::default();
    roff.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in EXIT_CODES {
        roff.control("TP", []);
        roff.text([bold(code.to_string())]);
        roff.text([roman(meaning)]);
    }
    roff.to_writer(&mut page)?;
    let name = command.get_display_name().unwrap_or(command.get_name());
    let file = dir.join(format!("{name}.{SECTION}"));
    let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", file.display()));
    fs::File::create(&file).and_then(|mut f| f.write_all(&page)).map_err(with_path)
}
