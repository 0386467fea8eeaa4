//! The log: lines for people, to a file when nobody reads stderr.

use crate::settings::Settings;
use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Mutex,
};
use tracing_subscriber::EnvFilter;

/// At a start, a larger log becomes `nrid.log.1`.
const LARGE: u64 = 8 << 20;

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// stderr, when no file is configured.
    Stderr,
    /// `nrid.log` in the state directory.
    File,
}

/// Opens the log. A log that cannot be written is no reason not to run: then there is none.
pub fn open(settings: &Settings, default: Default) {
    let configured = settings.config.log.file.clone();
    let path = configured.or_else(|| (default == Default::File).then(|| settings.state_dir.join("nrid.log")));
    let filter = EnvFilter::try_new(&settings.config.log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_target(false);
    let set = match path.map(|p| (file(&p), p)) {
        Some((Ok(file), _)) => builder.with_writer(Mutex::new(file)).try_init(),
        Some((Err(_), _)) => Ok(()),
        None => builder.with_writer(io::stderr).try_init(),
    };
    // Only a test could have set one before.
    drop(set);
}

fn file(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|m| m.len() > LARGE) {
        let mut old = path.as_os_str().to_owned();
        old.push(".1");
        fs::rename(path, PathBuf::from(old))?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
