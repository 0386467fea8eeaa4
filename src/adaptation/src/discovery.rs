//! Which files of the plugin directory are to be launched, and with which configuration.
//!
//! Nothing is launched here, and one bad file never hides the others: it is reported (upstream
//! gives up on all of them).

use crate::AdaptationConfig;
use nri_api::{InvalidPlugin, PluginId};
use nri_trust::{Owners, Untrusted};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A plugin that can be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) id: PluginId,
    /// As it is in the directory; a symlink is not resolved, so that the program sees the name it
    /// was installed under.
    pub(crate) path: PathBuf,
    /// What `Configure` hands over; empty without a file.
    pub(crate) config: String,
    /// Which program it was when it was looked at.
    pub(crate) program: Program,
}

/// What tells a program from one that takes its place: device, inode, size, and when it was
/// changed.
pub(crate) type Program = (u64, u64, u64, i64, i64);

/// Why a file in the plugin directory, or all of the directory, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SkipReason {
    /// An executable that is not named `NN-name`.
    #[error(transparent)]
    Name(#[from] InvalidPlugin),
    /// A WebAssembly module.
    #[error("webassembly plugins are not supported")]
    Wasm,
    /// A program that others could replace is not run with our rights.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The file, or what it links to, cannot be read; or the directory cannot be listed.
    #[error("cannot be read")]
    Unreadable(#[source] io::Error),
    /// Others could change its configuration.
    #[error("its configuration: {0}")]
    ConfigUntrusted(#[source] Untrusted),
    /// Its configuration file cannot be read, or is not UTF-8 and so cannot be sent.
    #[error("configuration {} cannot be read", path.display())]
    Config {
        /// The configuration file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A path that was passed over, and why.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) path: PathBuf,
    pub(crate) reason: SkipReason,
}

/// Looks through the plugin directory, in the order of file names. A missing directory is an empty
/// one.
pub(crate) fn discover(config: &AdaptationConfig) -> (Vec<Found>, Vec<Skipped>) {
    let dir = &config.plugin_path;
    let unreadable =
        |path: &Path, e| Skipped { path: path.to_owned(), reason: SkipReason::Unreadable(e) };
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return (found, skipped),
        Err(e) => return (found, vec![unreadable(dir, e)]),
    };
    let mut paths = Vec::new();
    for entry in entries {
        match entry {
            Ok(entry) => paths.push(entry.path()),
            Err(e) => skipped.push(unreadable(dir, e)),
        }
    }
    paths.sort();
    for path in paths {
        match examine(&path, config) {
            Ok(Some(plugin)) => found.push(plugin),
            Ok(None) => {}
            Err(reason) => skipped.push(Skipped { path, reason }),
        }
    }
    (found, skipped)
}

/// The plugin in this file; `None` for what is no executable and so no plugin.
pub(crate) fn examine(path: &Path, config: &AdaptationConfig) -> Result<Option<Found>, SkipReason> {
    // Follows links: it is the target that is run. Its own mode counts, the link's is always 0777.
    let meta = fs::metadata(path).map_err(SkipReason::Unreadable)?;
    let mode = meta.permissions().mode() & 0o7777;
    if !meta.is_file() || mode & 0o111 == 0 {
        return Ok(None);
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let id = PluginId::from_file_name(&file)?;
    let absolute = std::path::absolute(path).map_err(SkipReason::Unreadable)?;
    Owners::of_this_process().check(&absolute)?;
    if is_wasm(path).map_err(SkipReason::Unreadable)? {
        return Err(SkipReason::Wasm);
    }
    let program = (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec());
    Ok(Some(Found { config: plugin_config(&id, config)?, id, path: path.to_owned(), program }))
}

/// `NN-name.conf`, else `name.conf`, else nothing.
fn plugin_config(id: &PluginId, config: &AdaptationConfig) -> Result<String, SkipReason> {
    for name in [id.to_string(), id.name.to_string()] {
        let path = config.plugin_config_path.join(name + ".conf");
        // Relative paths are as good as the directory that we run in.
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        Owners::of_this_process().check_if_there(&absolute).map_err(SkipReason::ConfigUntrusted)?;
        match fs::read_to_string(&path) {
            Ok(text) => return Ok(text),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(SkipReason::Config { path, source }),
        }
    }
    Ok(String::new())
}

/// Whether the file begins with the magic number and version of a WebAssembly module. A program
/// that may be run but not read is none.
fn is_wasm(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    match fs::File::open(path) {
        Ok(file) => file.take(8).read_to_end(&mut head)?,
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
        Err(e) => return Err(e),
    };
    Ok(head == b"\0asm\x01\0\0\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Dirs {
        dir: tempfile::TempDir,
        config: AdaptationConfig,
    }

    impl Dirs {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let config = AdaptationConfig {
                plugin_path: dir.path().join("plugins"),
                plugin_config_path: dir.path().join("conf.d"),
                ..AdaptationConfig::default()
            };
            fs::create_dir(&config.plugin_path).unwrap();
            fs::create_dir(&config.plugin_config_path).unwrap();
            Self { dir, config }
        }

        fn file(&self, name: &str, mode: u32, bytes: &[u8]) -> PathBuf {
            let path = self.dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }

        fn check(&self, found: &[(&str, &str)], skipped: &[(&str, &str)]) {
            let (f, s) = discover(&self.config);
            let here = format!("{}/", self.dir.path().display());
            let f: Vec<_> = f.iter().map(|f| (f.id.to_string(), f.config.clone())).collect();
            let s: Vec<_> = s
                .iter()
                .map(|s| {
                    (
                        s.path.file_name().unwrap().to_string_lossy().into_owned(),
                        s.reason.to_string().replace(&here, ""),
                    )
                })
                .collect();
            let own = |pairs: &[(&str, &str)]| {
                pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>()
            };
            assert_eq!(f, own(found));
            assert_eq!(s, own(skipped));
        }
    }

    #[test]
    fn no_directory_no_plugins() {
        let mut dirs = Dirs::new();
        dirs.config.plugin_path.push("missing");
        dirs.check(&[], &[]);
    }

    #[test]
    fn a_directory_that_is_none_is_reported() {
        let mut dirs = Dirs::new();
        dirs.config.plugin_path = dirs.file("notdir", 0o644, b"");
        dirs.check(&[], &[("notdir", "cannot be read")]);
    }

    #[test]
    fn executables_by_name_the_rest_reported_or_ignored() {
        let dirs = Dirs::new();
        dirs.file("plugins/20-b", 0o755, b"#!");
        dirs.file("plugins/10-a", 0o700, b"");
        dirs.file("plugins/15-readme", 0o644, b"");
        dirs.file("plugins/nonumber", 0o755, b"");
        dirs.file("plugins/notes.txt", 0o644, b"");
        dirs.file("plugins/30-wasm", 0o755, b"\0asm\x01\0\0\0rest");
        dirs.file("plugins/31-nearly", 0o755, b"\0asm\x02\0\0\0rest");
        dirs.file("plugins/40-open", 0o777, b"");
        dirs.file("plugins/41-shared", 0o775, b"");
        fs::create_dir(dirs.dir.path().join("free")).unwrap();
        fs::set_permissions(dirs.dir.path().join("free"), fs::Permissions::from_mode(0o777))
            .unwrap();
        symlink(dirs.file("free/program", 0o755, b""), dirs.config.plugin_path.join("63-free"))
            .unwrap();
        fs::create_dir(dirs.config.plugin_path.join("50-dir")).unwrap();
        symlink(dirs.file("program", 0o755, b""), dirs.config.plugin_path.join("60-link")).unwrap();
        symlink(dirs.file("data", 0o644, b""), dirs.config.plugin_path.join("61-todata")).unwrap();
        symlink("/nonexistent/program", dirs.config.plugin_path.join("62-dangling")).unwrap();
        dirs.check(
            &[("10-a", ""), ("20-b", ""), ("31-nearly", ""), ("60-link", "")],
            &[
                ("30-wasm", "webassembly plugins are not supported"),
                (
                    "40-open",
                    "plugins/40-open is writable by everybody (mode 777), who could change it: chmod go-w plugins/40-open",
                ),
                (
                    "41-shared",
                    "plugins/41-shared is writable by its group (mode 775), who could change it: chmod g-w plugins/41-shared",
                ),
                ("62-dangling", "cannot be read"),
                (
                    "63-free",
                    "free is writable by everybody (mode 777), who could change what is in it: chmod go-w free",
                ),
                ("nonumber", "plugin file name \"nonumber\" is not of the form NN-name"),
            ],
        );
    }

    #[test]
    fn configuration_by_full_name_then_by_bare_name() {
        let dirs = Dirs::new();
        for name in ["10-a", "11-a", "12-b", "13-c"] {
            dirs.file(&format!("plugins/{name}"), 0o755, b"");
        }
        dirs.file("conf.d/a.conf", 0o644, b"any a");
        dirs.file("conf.d/10-a.conf", 0o644, b"this a");
        dirs.file("conf.d/13-c.conf", 0o644, b"\xff");
        dirs.file("plugins/14-d", 0o755, b"");
        dirs.file("conf.d/d.conf", 0o666, b"of anybody");
        let open = "its configuration: conf.d/d.conf is writable by everybody (mode 666), who could change it: chmod go-w conf.d/d.conf";
        dirs.check(
            &[("10-a", "this a"), ("11-a", "any a"), ("12-b", "")],
            &[("13-c", "configuration conf.d/13-c.conf cannot be read"), ("14-d", open)],
        );
    }
}
