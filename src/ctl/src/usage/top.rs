//! `nrictl top`: what all containers use, and how often plugins are called, refreshed until it is
//! ended.

use crate::{
    error::CtlError,
    nrid_location::NridLocation,
    output::output,
    usage::{
        load::{Counters, Load, SortKey},
        terminal::{Action, Screen},
    },
};
use clap::Args;
use std::{
    io::Write,
    time::{Duration, Instant},
};

/// Pause between two refreshes.
const INTERVAL: Duration = Duration::from_secs(2);

/// Time over which the use of CPUs is measured for the first table.
const FIRST_INTERVAL: Duration = Duration::from_millis(500);

/// The command line of `nrictl top`.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Print one table, and end. Needs no terminal.
    #[arg(long)]
    once: bool,
    /// Print JSON, once.
    #[arg(long)]
    json: bool,
    /// Column to sort by.
    #[arg(short, long, value_enum, default_value_t = SortKey::Cpu, value_name = "COLUMN")]
    sort: SortKey,
}

impl Top {
    /// Shows the load until a key or a signal ends it, or once.
    ///
    /// # Errors
    /// There is no terminal; or `nrid` does not reply to the first request.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), CtlError> {
        let once = self.once || self.json;
        if !once && !Screen::is_available() {
            return Err(CtlError::NoTerminal);
        }
        if !once && !Screen::is_in_foreground() {
            return Err(CtlError::Background);
        }
        let mut counters = Counters::read(nrid)?.0;
        std::thread::sleep(FIRST_INTERVAL);
        let (next, status, containers) = Counters::read(nrid)?;
        let mut load = Load::new(status, containers, &counters, &next);
        counters = next;
        if once {
            load.sort(self.sort);
            let mut out = output();
            if self.json {
                return Ok(writeln!(out, "{}", load.to_json())?);
            }
            for line in load.lines(self.sort, None) {
                writeln!(out, "{line}")?;
            }
            return Ok(());
        }
        self.run_on_screen(nrid, Ok(load), counters)
    }

    fn run_on_screen(
        &self,
        nrid: &NridLocation,
        mut load: Result<Load, CtlError>,
        mut counters: Counters,
    ) -> Result<(), CtlError> {
        let screen = Screen::open()?;
        let mut sort = self.sort;
        let mut deadline = Instant::now() + INTERVAL;
        loop {
            let rows = Screen::rows();
            let lines = match &mut load {
                Ok(load) => {
                    load.sort(sort);
                    load.lines(sort, Some(rows))
                }
                Err(error) => vec![format!("nrictl: {error}"), "q: quit".to_owned()],
            };
            Screen::show(&lines)?;
            match screen.wait(deadline)? {
                Action::Quit => return Ok(screen.close()?),
                Action::Sort => sort = sort.next(),
                // The size has changed.
                Action::Refresh if Instant::now() < deadline => {}
                Action::Refresh => {
                    load = Counters::read(nrid).map(|(next, status, containers)| {
                        let load = Load::new(status, containers, &counters, &next);
                        counters = next;
                        load
                    });
                    deadline = Instant::now() + INTERVAL;
                }
            }
        }
    }
}
