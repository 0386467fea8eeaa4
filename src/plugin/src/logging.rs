//! Logging of a plugin: messages of `tracing` as lines on stderr, without other configuration than
//! a level. (Feature `logging`, which is on by default.)
//!
//! Runtimes and systemd collect stderr and add times themselves, so a line has none:
//!
//! ```text
//!  INFO 50-greeter: registered
//! ```
//!
//! The level is `info`, or the value of the variable `NRI_PLUGIN_LOG`. A runtime gives a plugin
//! that it launches no such variable; [`set_level`] takes the level from its configuration.

use std::{io::stderr, str::FromStr, sync::OnceLock};
use tracing::level_filters::{LevelFilter, ParseLevelFilterError};
use tracing_subscriber::{Registry, layer::SubscriberExt, reload, util::SubscriberInitExt};

/// The filter of the subscriber that [`init`] has installed.
static FILTER: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Writes messages to stderr from now on. Does nothing if the program has a subscriber already.
/// [`run`](crate::run) and [`Builder::main`](crate::Builder::main) call it.
pub fn init() {
    let level = std::env::var("NRI_PLUGIN_LOG").ok();
    let level = level.and_then(|text| LevelFilter::from_str(&text).ok());
    let (filter, handle) = reload::Layer::new(level.unwrap_or(LevelFilter::INFO));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_target(false)
        .without_time()
        .with_writer(stderr);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        FILTER.get_or_init(|| handle);
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
