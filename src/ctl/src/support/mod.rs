//! `nrictl support-bundle`: an archive of what a maintainer asks for, without secrets.
//!
//! The reports come from this program's own subcommands. Contents of plugins' configuration files
//! are left out: their form is unknown, so that secrets in them cannot be recognized.

mod commands;
mod error;
mod host;
mod json;
mod mask;

pub(crate) use error::SupportError;

use crate::{exit_code::NEEDS_ROOT, nrid_location::NridLocation, output::output};
use clap::Args;
use flate2::{Compression, write::GzEncoder};
use mask::Mask;
use nri_files::{AuditLine, LOG_FILE};
use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Length limit of each file in bytes; of a longer one, the end is kept.
const MAX_FILE: u64 = 2 << 20;

/// Reports of `nrictl`, by the names of their files.
const REPORTS: &[(&str, &[&str])] = &[
    ("status.json", &["status", "--json"]),
    ("plugins.json", &["plugins", "--json"]),
    ("doctor.json", &["doctor", "--json"]),
    ("validate.json", &["validate", "--json"]),
    ("verify.json", &["verify", "--all", "--json"]),
    ("pods.json", &["pods", "--json"]),
    ("containers.json", &["containers", "--json"]),
];

/// Arguments of journalctl for the last lines of `nrid`.
const JOURNAL_LINES: [&str; 5] =
    ["--no-pager", "--quiet", "--identifier=nrid", "--lines=10000", "--output=short-iso-precise"];

/// Options of `nrictl support-bundle`.
#[derive(Debug, Args)]
pub(crate) struct SupportBundle {
    /// File to create. Default: `nri-support-TIME.tar.gz` in the working directory.
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl SupportBundle {
    /// Writes the archive, and prints its path.
    ///
    /// # Errors
    /// The archive cannot be written; then it is removed.
    pub(crate) fn run(&self, nrid: &NridLocation) -> Result<(), SupportError> {
        let now = SystemTime::now();
        let time = humantime::format_rfc3339_seconds(now).to_string().replace(':', "");
        let name = format!("nri-support-{time}");
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
        let failure = |source| SupportError::Archive { path: path.clone(), source };
        // Readable only for its owner: masks cannot know every secret.
        let mut options = File::options();
        let file = options.write(true).create_new(true).mode(0o600).open(&path).map_err(failure)?;
        let written = self.write(file, &name, nrid);
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        let count = written.map_err(|error| match error {
            BundleError::Io(error) => failure(error),
            BundleError::Other(error) => error,
        })?;
        let text = format!(
            "{}: {count} files\nPasswords, tokens and the like are masked; look through it all the \
             same\nbefore you send it to anyone.\n",
            path.display()
        );
        output().write_all(text.as_bytes()).map_err(SupportError::Output)
    }

    /// Writes the files; returns their number.
    fn write(&self, file: File, name: &str, nrid: &NridLocation) -> Result<usize, BundleError> {
        let mut archive = Archive {
            tar: tar::Builder::new(GzEncoder::new(file, Compression::default())),
            dir: name.to_owned(),
            mask: Mask::new().map_err(SupportError::from)?,
            count: 0,
        };
        let program = std::env::current_exe().map_err(SupportError::OwnProgram)?;
        let state_dir = &nrid.launcher.state_dir;
        for (file, arguments) in REPORTS {
            progress(file);
            let mut command = Command::new(&program);
            command.args(*arguments).arg("--state-dir").arg(state_dir).stdin(Stdio::null());
            if let Some(config) = &nrid.launcher.config {
                command.arg("--config").arg(config);
            }
            let output = command.output()?;
            if output.status.code() == Some(NEEDS_ROOT.into()) {
                return Err(SupportError::NeedsRoot.into());
            }
            archive.add(file, &output.stdout)?;
            if !output.stderr.is_empty() {
                archive.add(&format!("{file}.stderr"), &output.stderr)?;
            }
        }
        progress("logs, configuration, host");
        let log = nrid.config.log.file.clone().unwrap_or_else(|| state_dir.join(LOG_FILE));
        archive.add_file("nrid.log", &log)?;
        let log = end_of(&nrid.audit_log()).map(|log| without_environment(&log));
        archive.add_result("audit.log", log)?;
        // Without journald there are no lines.
        if let Ok(journal) =
            Command::new("journalctl").args(JOURNAL_LINES).stdin(Stdio::null()).output()
            && !journal.stdout.is_empty()
        {
            archive.add("journal.txt", &journal.stdout)?;
        }
        if let Some(config) = &nrid.file {
            archive.add_file("config.toml", config)?;
        }
        archive.add("plugin-files.txt", plugin_files(nrid).as_bytes())?;
        archive.add("state-directory.txt", list(state_dir).as_bytes())?;
        for path in host::ENGINE_FILES.iter().chain(host::HOST_FILES) {
            archive.add_file(&format!("host{path}"), Path::new(path))?;
        }
        archive.add("versions.txt", host::versions().as_bytes())?;
        let (tar, count) = (archive.tar, archive.count);
        tar.into_inner()?.finish()?.sync_all()?;
        Ok(count)
    }
}

/// Failure of a write, or another one.
enum BundleError {
    Io(io::Error),
    Other(SupportError),
}

impl From<io::Error> for BundleError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<SupportError> for BundleError {
    fn from(error: SupportError) -> Self {
        Self::Other(error)
    }
}

/// The archive while it is written.
struct Archive {
    tar: tar::Builder<GzEncoder<File>>,
    dir: String,
    mask: Mask,
    count: usize,
}

impl Archive {
    /// Adds a file with this content, masked.
    fn add(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        let text = self.mask.apply(&String::from_utf8_lossy(content));
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        header.set_mtime(now.as_secs());
        self.count += 1;
        self.tar.append_data(&mut header, format!("{}/{name}", self.dir), text.as_bytes())
    }

    /// Adds the end of a file of the host. A file that does not exist is left out; of one that
    /// cannot be read, the archive has the error.
    fn add_file(&mut self, name: &str, path: &Path) -> io::Result<()> {
        self.add_result(name, end_of(path))
    }

    fn add_result(&mut self, name: &str, content: io::Result<Vec<u8>>) -> io::Result<()> {
        match content {
            Ok(content) => self.add(name, &content),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => self.add(&format!("{name}.error"), format!("{error}\n").as_bytes()),
        }
    }
}

/// Returns at most the last [`MAX_FILE`] bytes of a regular file.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut file = File::open(path)?;
    // Files of /proc have no size, and are short.
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(MAX_FILE)))?;
    let mut content = Vec::new();
    file.take(MAX_FILE).read_to_end(&mut content)?;
    Ok(content)
}

/// Masks the values of environment variables in an audit log, which has them if the configuration
/// says so. Leaves out what is not a whole line.
fn without_environment(log: &[u8]) -> Vec<u8> {
    let mut masked = Vec::new();
    for line in log.split(|byte| *byte == b'\n') {
        let Ok(mut line) = serde_json::from_slice::<AuditLine>(line) else { continue };
        line.mask_environment();
        // Writing to memory does not fail.
        if serde_json::to_writer(&mut masked, &line).is_ok() {
            masked.push(b'\n');
        }
    }
    masked
}

/// Lists the plugin directories and the directory of the plugins' configuration files.
fn plugin_files(nrid: &NridLocation) -> String {
    let dirs = &nrid.plugin_dirs;
    dirs.all().chain([&*dirs.configuration]).map(list).collect()
}

/// Lists a directory: mode, owner, size and name of each file.
fn list(dir: &Path) -> String {
    let mut text = format!("{}:\n", dir.display());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => return format!("{text}  {error}\n"),
    };
    let mut lines: Vec<String> = entries
        .flatten()
        .map(|entry| match fs::symlink_metadata(entry.path()) {
            Ok(meta) => format!(
                "  {:06o} {}:{} {:>9} {}\n",
                meta.permissions().mode(),
                meta.uid(),
                meta.gid(),
                meta.len(),
                entry.file_name().to_string_lossy()
            ),
            Err(error) => format!("  {}: {error}\n", entry.file_name().to_string_lossy()),
        })
        .collect();
    lines.sort();
    text.extend(lines);
    text
}

/// Prints on standard error what is collected now.
fn progress(what: &str) {
    // A failed write to standard error cannot be reported anywhere.
    let _ = writeln!(io::stderr(), "collecting {what}");
}
