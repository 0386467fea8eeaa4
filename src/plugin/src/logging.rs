//! Logging of a plugin: messages of `tracing` as lines on stderr, without other configuration than
//! a level. (Feature `logging`, which is on by default.)
//!
//! Runtimes and systemd collect stderr and add times themselves, so a line has none:
//!
//! ```text
//!  INFO 50-greeter: registered with containerd 2.1.9 at /run/nri/nri.sock
//! ```
//!
//! [`write_to`] writes them to a file instead, with times.
//!
//! The level is `info`, or the value of the variable `NRI_PLUGIN_LOG`. A runtime gives a plugin
//! that it launches no such variable; [`set_level`] takes the level from its configuration.

use std::{
    fs::{File, OpenOptions},
    io::{self, stderr},
    path::Path,
    str::FromStr,
    sync::{Arc, OnceLock, PoisonError, RwLock},
};
use tracing::level_filters::{LevelFilter, ParseLevelFilterError};
use tracing_subscriber::{
    Registry, fmt, fmt::writer::OptionalWriter, layer::SubscriberExt, reload,
    util::SubscriberInitExt,
};

/// The filter of the subscriber that [`init`] has installed.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// The file that messages are written to in place of stderr.
static LOG_FILE: RwLock<Option<Arc<File>>> = RwLock::new(None);

fn log_file() -> Option<Arc<File>> {
    LOG_FILE.read().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Writes messages to stderr from now on. Does nothing if the program has a subscriber already.
/// [`run`](crate::run) and [`Builder::main`](crate::Builder::main) call it.
pub fn init() {
    let level = std::env::var("NRI_PLUGIN_LOG").ok().filter(|level| !level.is_empty());
    let parsed = level.as_deref().map_or(Ok(LevelFilter::INFO), LevelFilter::from_str);
    let (filter, handle) = reload::Layer::new(*parsed.as_ref().unwrap_or(&LevelFilter::INFO));
    let on_stderr =
        fmt::layer().with_ansi(false).with_target(false).without_time().with_writer(|| {
            match log_file() {
                None => OptionalWriter::some(stderr()),
                Some(_) => OptionalWriter::none(),
            }
        });
    let in_file = fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .with_writer(|| log_file().map_or_else(OptionalWriter::none, OptionalWriter::some));
    let subscriber = tracing_subscriber::registry().with(filter).with(on_stderr).with(in_file);
    if subscriber.try_init().is_ok() {
        FILTER.get_or_init(|| handle);
        if parsed.is_err() {
            let level = level.unwrap_or_default();
            tracing::warn!("NRI_PLUGIN_LOG is {level:?}, which is no level: info is used");
        }
    }
}

/// Sets the level: `off`, `error`, `warn`, `info`, `debug` or `trace`. Does nothing if the program
/// has a subscriber of its own.
///
/// # Errors
/// If the text is no level.
pub fn set_level(level: &str) -> Result<(), ParseLevelFilterError> {
    let level = LevelFilter::from_str(level)?;
    if let Some(filter) = FILTER.get() {
        // Fails only if the subscriber is gone.
        filter.reload(level).ok();
    }
    Ok(())
}

/// Appends messages to this file from now on, with their times, in place of stderr. The file is
/// created if it does not exist. Does nothing but that if the program has a subscriber of its own.
///
/// # Errors
/// If the file cannot be opened; messages go where they went before.
pub fn write_to(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    *LOG_FILE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(file));
    Ok(())
}
