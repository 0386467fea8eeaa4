//! The log: lines for people, to a file when nobody reads stderr. A line is one event, whatever is
//! in the names and messages that it holds. The file and the one before it have a bounded size.

use crate::settings::load::Settings;
use nri_control::printable;
use nri_trust::Owners;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tracing_subscriber::EnvFilter;

/// A log that would grow beyond this, in bytes, becomes `nrid.log.1`, in place of the one of
/// before.
const LARGE: u64 = 8 << 20;

/// Where the log goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// stderr, when no file is configured.
    Stderr,
    /// `nrid.log` in the state directory.
    File,
}

/// The log that is open; clones are the same.
#[derive(Clone)]
pub struct Log {
    to: Arc<Mutex<To>>,
    default: Default,
    filter: Arc<dyn Fn(EnvFilter) + Send + Sync>,
}

enum To {
    /// A log that cannot be written is no reason not to run.
    Nowhere,
    Stderr,
    File(Bounded),
}

impl To {
    fn of(settings: &Settings, default: Default) -> Self {
        let configured = settings.config.log.file.clone();
        let ours = || (default == Default::File).then(|| settings.state_dir.join("nrid.log"));
        match configured.or_else(ours).map(|path| Bounded::open(&path, LARGE)) {
            Some(Ok(file)) => Self::File(file),
            Some(Err(_)) => Self::Nowhere,
            None => Self::Stderr,
        }
    }
}

/// Opens the log.
pub fn open(settings: &Settings, default: Default) -> Log {
    let to = Arc::new(Mutex::new(To::of(settings, default)));
    let out = Out(to.clone());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter(settings))
        .with_ansi(false)
        .with_target(false)
        .with_writer(move || Lines(out.clone()))
        .with_filter_reloading();
    let handle = builder.reload_handle();
    // Only a test could have set one before.
    let _ = builder.try_init();
    let filter = move |filter| {
        // It fails only where there is no log.
        let _ = handle.reload(filter);
    };
    Log { to, default, filter: Arc::new(filter) }
}

fn filter(settings: &Settings) -> EnvFilter {
    EnvFilter::try_new(&settings.config.log.level).unwrap_or_else(|_| EnvFilter::new("info"))
}

impl Log {
    /// Opens the file again, under its name or another one: somebody moved it away, or the
    /// configuration says so. The level, too, is what the settings say.
    pub fn reopen(&self, settings: &Settings) {
        let to = To::of(settings, self.default);
        *locked(&self.to) = to;
        (self.filter)(filter(settings));
    }
}

fn locked(to: &Mutex<To>) -> MutexGuard<'_, To> {
    to.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone)]
struct Out(Arc<Mutex<To>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *locked(&self.0) {
            To::Nowhere => Ok(bytes.len()),
            To::Stderr => io::stderr().write(bytes),
            To::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

/// A file that does not grow beyond a size.
struct Bounded {
    path: PathBuf,
    file: File,
    /// None for what does not grow, such as a pipe.
    size: Option<u64>,
    largest: u64,
}

impl Bounded {
    fn open(path: &Path, largest: u64) -> io::Result<Self> {
        // A link of ours: the file that it leads to is moved, and not the link.
        let path = if is_our_link(path) {
            fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
        } else {
            path.to_owned()
        };
        let file = file(&path)?;
        let meta = file.metadata()?;
        Ok(Self { path, file, size: meta.is_file().then_some(meta.len()), largest })
    }

    /// Begins a new file. Where that cannot be, the old one begins anew: a full disk is worse than
    /// a lost log.
    fn turn(&mut self) -> io::Result<()> {
        let mut old = self.path.as_os_str().to_owned();
        old.push(".1");
        match fs::rename(&self.path, PathBuf::from(old)).and_then(|()| file(&self.path)) {
            Ok(file) => self.file = file,
            Err(_) => self.file.set_len(0)?,
        }
        self.size = Some(0);
        Ok(())
    }
}

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self
            .size
            .is_some_and(|size| size > 0 && size.saturating_add(bytes.len() as u64) > self.largest)
        {
            self.turn()?;
        }
        let written = self.file.write(bytes)?;
        self.size = self.size.map(|size| size.saturating_add(written as u64));
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn is_our_link(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|m| m.is_symlink() && Owners::of_this_process().contains(m.uid()))
}

/// Opens it without following a link that somebody else put there, nor using a file of theirs: the
/// directory may be one in which others write.
fn file(path: &Path) -> io::Result<File> {
    let flags = if is_our_link(path) { 0 } else { libc::O_NOFOLLOW };
    let file =
        OpenOptions::new().append(true).create(true).mode(0o600).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() && !Owners::of_this_process().contains(meta.uid()) {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!("it is user {}'s", meta.uid()),
        ));
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

    #[test]
    fn a_log_has_a_largest_size_and_one_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let sizes = || ["log", "log.1"].map(|name| fs::metadata(path(name)).map_or(0, |m| m.len()));
        fs::write(path("log"), "x".repeat(90)).unwrap();
        let mut log = Bounded::open(&path("log"), 100).unwrap();
        log.write_all(b"0123456789").unwrap();
        assert_eq!(sizes(), [100, 0]);
        log.write_all(b"next").unwrap();
        assert_eq!(sizes(), [4, 100]);
        for _ in 0..1000 {
            log.write_all(b"0123456789").unwrap();
        }
        assert!(sizes().into_iter().all(|size| size <= 100), "{:?}", sizes());
        // A line that is larger is written all the same.
        log.write_all(&[b'y'; 150]).unwrap();
        assert_eq!(sizes()[0], 150);
        // Where nothing can be moved, it begins anew.
        fs::remove_file(path("log.1")).unwrap();
        fs::create_dir(path("log.1")).unwrap();
        log.write_all(b"anew").unwrap();
        assert_eq!(fs::read(path("log")).unwrap(), b"anew");
    }

    #[test]
    fn a_link_of_ours_stays_and_what_does_not_grow_is_not_moved() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("real"), "").unwrap();
        symlink("real", path("link")).unwrap();
        let mut log = Bounded::open(&path("link"), 10).unwrap();
        log.write_all(b"0123456789").unwrap();
        log.write_all(b"x").unwrap();
        assert_eq!(fs::read(path("link")).unwrap(), b"x");
        assert!(
            fs::symlink_metadata(path("link")).unwrap().is_symlink() && path("real.1").is_file()
        );
        let mut null = Bounded::open(Path::new("/dev/null"), 10).unwrap();
        for _ in 0..3 {
            null.write_all(b"0123456789").unwrap();
        }
        assert!(!Path::new("/dev/null.1").exists());
    }
}
