//! `nrictl logs`: the log of `nrid`, which also has what launched plugins write; and its level.

mod journal;
mod level;
mod line;
mod source;

pub(crate) use level::LogLevel;

use crate::{
    audit::parse_time,
    error::CtlError,
    nrid_location::NridLocation,
    output::{output, wait_for_reader},
};
use clap::Args;
use line::ParsedLine;
use nri_values::nearest;
use nri_values::printable;
use source::LogSource;
use std::{
    collections::{BTreeSet, VecDeque},
    io::{self, Write},
    time::{Duration, SystemTime},
};

/// Interval at which `--follow` looks for new lines in a file.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The command line of `nrictl logs`.
#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// Only what this plugin has written, if nrid launched it, and what nrid says of it: NN-name,
    /// or name.
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,
    /// Wait for further lines.
    #[arg(long, short)]
    follow: bool,
    /// Only lines since this time, such as 2026-01-02T15:04:05Z, or 10m for ten minutes ago.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<SystemTime>,
    /// Only lines until this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "follow")]
    until: Option<SystemTime>,
    /// Begin with the last lines: at most this many.
    #[arg(long, short = 'n', value_name = "NUMBER")]
    lines: Option<usize>,
    /// Print a line of JSON for each line.
    #[arg(long)]
    json: bool,
}

impl Logs {
    /// Prints the lines.
    ///
    /// # Errors
    /// There is no log, or it cannot be read.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let mut source = LogSource::open(nrid, self.follow)?;
        let mut out = output();
        let mut last = VecDeque::new();
        let mut has_any = false;
        let mut others = BTreeSet::new();
        while let Some(text) = source.next()? {
            if !self.matches(&text) {
                let other = ParsedLine::parse(&text).plugin;
                others.extend(other.filter(|_| self.plugin.is_some()).map(str::to_owned));
                continue;
            }
            has_any = true;
            match self.lines {
                None => self.print(&mut out, &text)?,
                Some(0) => {}
                Some(count) => {
                    if last.len() >= count {
                        last.pop_front();
                    }
                    last.push_back(text);
                }
            }
        }
        last.iter().try_for_each(|text| self.print(&mut out, text))?;
        if let Some(plugin) = &self.plugin
            && !has_any
        {
            // An empty output would look as if the plugin were known, and silent.
            let bare =
                others.iter().filter_map(|other| other.split_once('-')).map(|(_, name)| name);
            let meant = nearest(plugin, others.iter().map(String::as_str).chain(bare));
            let meant = meant.filter(|meant| meant != plugin);
            let hint = meant.map(|meant| format!(" (did you mean {}?)", printable(meant)));
            let (plugin, hint) = (printable(plugin), hint.unwrap_or_default());
            eprintln!(
                "nrictl: the log has no line of {plugin}{hint}; the output of a plugin that \
                 connects by itself is in the log of whatever started it"
            );
        }
        if !self.follow {
            return Ok(());
        }
        loop {
            out.flush()?;
            let added = source.next_added()?;
            let pause = if added.is_some() { Duration::ZERO } else { POLL_INTERVAL };
            if let Some(text) = added.filter(|text| self.matches(text)) {
                self.print(&mut out, &text)?;
            }
            if !wait_for_reader(pause) {
                return Ok(());
            }
        }
    }

    fn matches(&self, text: &str) -> bool {
        let line = ParsedLine::parse(text);
        let is_since = |since: &SystemTime| line.time().is_some_and(|time| time >= *since);
        let is_until = |until: &SystemTime| line.time().is_some_and(|time| time <= *until);
        let is_of = |plugin: &String| line.is_of_plugin(plugin);
        self.since.as_ref().is_none_or(is_since)
            && self.until.as_ref().is_none_or(is_until)
            && self.plugin.as_ref().is_none_or(is_of)
    }

    fn print(&self, out: &mut impl Write, text: &str) -> io::Result<()> {
        let line = ParsedLine::parse(text);
        if self.json {
            return writeln!(out, "{}", serde_json::to_string(&line)?);
        }
        match &self.plugin {
            Some(_) => writeln!(out, "{}", printable(&line.without_plugin())),
            None => writeln!(out, "{}", printable(text)),
        }
    }
}
