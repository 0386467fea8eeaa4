//! The log: lines for people, to a file when nobody reads stderr. A line is one event, whatever is in the names and messages that it holds.

use crate::settings::Settings;
use nri_control::printable;
use nri_trust::Owners;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
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
        Some((Ok(file), _)) => builder.with_writer(Mutex::new(Lines(file))).try_init(),
        Some((Err(_), _)) => Ok(()),
        None => builder.with_writer(|| Lines(io::stderr())).try_init(),
    };
    // Only a test could have set one before.
    drop(set);
}

/// Writes events, each of which comes whole, as lines.
struct Lines<W>(W);

impl<W: Write> Write for Lines<W> {
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

/// Opens it without following a link that somebody else put there, nor using a file of theirs: the directory may be one in which others write.
fn file(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() > LARGE) {
        let mut old = path.as_os_str().to_owned();
        old.push(".1");
        fs::rename(path, PathBuf::from(old))?;
    }
    let ours = |uid| Owners::of_this_process().contains(uid);
    let linked = fs::symlink_metadata(path).is_ok_and(|m| m.is_symlink() && ours(m.uid()));
    let flags = if linked { 0 } else { libc::O_NOFOLLOW };
    let file = OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && !ours(meta.uid()) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, format!("it is user {}'s", meta.uid())));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};

    #[test]
    fn an_event_is_one_line() {
        let mut written = Lines(Vec::new());
        written.write_all(b"INFO all is well\n").unwrap();
        written.write_all(b"WARN name=\"x\nINFO forged\x1b[2J\xff\"\n").unwrap();
        let text = String::from_utf8(written.0).unwrap();
        assert_eq!(text, "INFO all is well\nWARN name=\"x; INFO forged\u{fffd}[2J\u{fffd}\"\n");
    }

    #[test]
    fn neither_files_nor_links_of_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        file(&path("new")).unwrap();
        assert_eq!(fs::metadata(path("new")).unwrap().permissions().mode() & 0o777, 0o600);
        symlink("new", path("link")).unwrap();
        file(&path("link")).unwrap();
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root can give files away");
            return;
        }
        lchown(path("link"), Some(4711), None).unwrap();
        assert!(file(&path("link")).is_err());
        fs::write(path("theirs"), "").unwrap();
        chown(path("theirs"), Some(4711), None).unwrap();
        assert_eq!(file(&path("theirs")).unwrap_err().to_string(), "it is user 4711's");
    }
}
