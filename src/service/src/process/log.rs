//! The log, to stderr, to a file or to journald. Each event is one line, whatever bytes its names
//! and messages hold. The sizes of the log file and of the previous log file are limited.

use crate::{
    host::bounded_file::BoundedFile,
    process::{
        journal::{self, Journal},
        journaled_output::JournaledOutput,
    },
    settings::load::Settings,
};
use nri_config::{LogDestination, LogSettings};
use nri_values::printable;
use parking_lot::Mutex;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use tracing::{Event, Subscriber, span};
use tracing_subscriber::{
    Layer,
    filter::{LevelFilter, Targets},
    fmt as lines,
    layer::{Context, SubscriberExt},
    registry::LookupSpan,
    reload,
    util::SubscriberInitExt,
};

/// Maximum size of the log file in bytes, enough for some ten thousand events. Before the file
/// grows beyond this size it is renamed to `nrid.log.1`.
const MAX_SIZE: u64 = 8 << 20;

/// Destination of the log if no file is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultLog {
    /// stderr.
    Stderr,
    /// `nrid.log` in the state directory.
    File,
}

/// The open log; clones write to the same destination.
#[derive(Clone)]
pub struct Log {
    output: Arc<Mutex<Output>>,
    default: DefaultLog,
    filter: Arc<dyn Fn(Targets) + Send + Sync>,
    level: Arc<Mutex<String>>,
}

enum Output {
    /// The log file cannot be opened; `nrid` runs without a log.
    Discarded,
    Stderr,
    File(BoundedFile),
    Journal(JournaledOutput),
}

impl Output {
    fn of(settings: &Settings, default: DefaultLog) -> Self {
        let LogSettings { file, destination, .. } = &settings.config.log;
        let is_journal = match destination {
            LogDestination::Journal => true,
            LogDestination::Auto => file.is_none() && journal::is_stderr(),
        };
        let in_state_dir = || settings.state_dir.join(nri_files::LOG_FILE);
        if is_journal && let Ok(journal) = Journal::new() {
            let file = file.clone().unwrap_or_else(in_state_dir);
            return Self::Journal(JournaledOutput::new(journal, file, MAX_SIZE));
        }
        let default = || (default == DefaultLog::File).then(in_state_dir);
        match file.clone().or_else(default).map(|path| BoundedFile::open(&path, MAX_SIZE)) {
            Some(Ok(file)) => Self::File(file),
            Some(Err(_)) => Self::Discarded,
            None => Self::Stderr,
        }
    }
}

/// Sends events to the journal, if the log goes there and journald receives, and writes all others
/// as lines. The journal gets no fields of spans: libraries have some, `nrid` has none.
struct Destinations<L> {
    output: Arc<Mutex<Output>>,
    lines: L,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, L: Layer<S>> Layer<S> for Destinations<L> {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let is_sent = match &mut *self.output.lock() {
            Output::Journal(journal) => journal.send(event),
            Output::Discarded | Output::Stderr | Output::File(_) => false,
        };
        if !is_sent {
            self.lines.on_event(event, context);
        }
    }

    fn on_new_span(&self, span: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        self.lines.on_new_span(span, id, context);
    }

    fn on_record(&self, id: &span::Id, values: &span::Record<'_>, context: Context<'_, S>) {
        self.lines.on_record(id, values, context);
    }
}

/// Opens the log.
pub fn open(settings: &Settings, default: DefaultLog) -> Log {
    open_output(Output::of(settings, default), default, &settings.config.log.level)
}

/// Logs warnings and errors to stderr, wherever the log of `nrid` is.
pub fn warn_on_stderr() -> Log {
    open_output(Output::Stderr, DefaultLog::Stderr, "warn")
}

fn open_output(output: Output, default: DefaultLog, level: &str) -> Log {
    let output = Arc::new(Mutex::new(output));
    let shared = SharedOutput(output.clone());
    let lines = lines::layer()
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || LineWriter(shared.clone()));
    let (filter, handle) = reload::Layer::new(filter(level));
    // Fails only in a test that has set another subscriber.
    let destinations = Destinations { output: output.clone(), lines };
    let _ = tracing_subscriber::registry().with(destinations).with(filter).try_init();
    let filter = move |filter| {
        // Fails only if there is no subscriber.
        let _ = handle.reload(filter);
    };
    let level = Arc::new(Mutex::new(level.to_owned()));
    Log { output, default, filter: Arc::new(filter), level }
}

/// Prefix of the modules of this project in a filter: `nrid` and `nri_adaptation`, for example.
const OWN_MODULES: &str = "nri";

/// Returns the filter of a level, or of a list of levels. A level without a module applies to the
/// modules of this project. Dependencies log warnings and errors, unless the list names them: at
/// `debug` they would log each frame of HTTP/2. `EnvFilter` could also select spans, of which
/// `nrid` has none, and brings a library of regular expressions.
fn filter(level: &str) -> Targets {
    let named = level.parse::<Targets>();
    let named = named.unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let Some(level) = named.default_level() else { return named };
    let filter =
        Targets::new().with_default(level.min(LevelFilter::WARN)).with_target(OWN_MODULES, level);
    filter.with_targets(named)
}

impl Log {
    /// Returns the path of the log file; `None` if the log is written to standard error or to the
    /// journal, or discarded.
    pub fn file(&self) -> Option<PathBuf> {
        match &*self.output.lock() {
            Output::File(file) => Some(file.path().to_owned()),
            Output::Journal(journal) => journal.file_in_use().map(Path::to_owned),
            Output::Discarded | Output::Stderr => None,
        }
    }

    /// Whether the log goes to the journal, even if journald does not receive now.
    pub fn is_journal(&self) -> bool {
        matches!(&*self.output.lock(), Output::Journal(_))
    }

    /// Returns the error of the journal, while lines go to the file because of it.
    pub fn journal_error(&self) -> Option<String> {
        match &*self.output.lock() {
            Output::Journal(journal) => journal.error().map(ToString::to_string),
            Output::Discarded | Output::Stderr | Output::File(_) => None,
        }
    }

    /// Returns the current level.
    pub fn level(&self) -> String {
        self.level.lock().clone()
    }

    /// Changes the level.
    pub fn set_level(&self, level: String) {
        (self.filter)(filter(&level));
        *self.level.lock() = level;
    }

    /// Opens the log file again, because it may have been renamed or its path changed.
    pub fn reopen(&self, settings: &Settings) {
        *self.output.lock() = Output::of(settings, self.default);
    }

    /// Opens the log of new settings, with their level.
    pub fn configure(&self, settings: &Settings) {
        self.reopen(settings);
        self.set_level(settings.config.log.level.clone());
    }
}

#[derive(Clone)]
struct SharedOutput(Arc<Mutex<Output>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *self.0.lock() {
            Output::Discarded => Ok(bytes.len()),
            Output::Journal(journal) => journal.write_to_file(bytes),
            Output::Stderr => io::stderr().write(bytes),
            Output::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes each event as one line; an event is one call of `write`.
struct LineWriter<W>(W);

impl<W: Write> Write for LineWriter<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = printable(text.strip_suffix('\n').unwrap_or(&text));
        self.0.write_all(format!("{line}\n").as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn levels_apply_to_all_parts_or_to_the_named_ones() {
        for level in ["debug", "DEBUG", "info,nri_wire=debug", "debug,h2=info", "nri_wire=Trace"] {
            assert!(filter(level).would_enable("nri_wire::trunk", &Level::DEBUG), "{level}");
        }
        for level in ["info", "debug,nri_wire=warn", "off", "warn", "h2=trace", "info,h2=x=y"] {
            assert!(!filter(level).would_enable("nri_wire::trunk", &Level::DEBUG), "{level}");
        }
        let frames = |level| filter(level).would_enable("h2::codec", &Level::DEBUG);
        assert!(!frames("debug") && !frames("trace") && !frames("info,nri_wire=debug"));
        assert!(frames("info,h2=debug") && frames("h2=debug"));
        assert!(filter("info").would_enable("h2", &Level::WARN));
        assert!(!filter("error").would_enable("h2", &Level::WARN));
        assert!(filter("debug").would_enable("nrid::verb", &Level::DEBUG));
        assert!(filter("off").default_level().is_some_and(|level| level == LevelFilter::OFF));
        assert!(filter("nri wire[=]").would_enable("nrid", &Level::INFO));
    }

    #[test]
    fn a_log_event_is_one_line() {
        let mut written = LineWriter(Vec::new());
        written.write_all(b"INFO all is well\n").unwrap();
        written.write_all(b"WARN name=\"x\nINFO forged\x1b[2J\xff\"\n").unwrap();
        let text = String::from_utf8(written.0).unwrap();
        assert_eq!(text, "INFO all is well\nWARN name=\"x; INFO forged\u{fffd}[2J\u{fffd}\"\n");
    }
}
