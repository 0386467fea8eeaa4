//! Discovery of plugins to launch: executables of the plugin directory and their configuration
//! files.
//!
//! Nothing is launched here. A file that cannot be launched is skipped with a reason; upstream NRI
//! aborts the discovery instead.

use crate::config::AdaptationConfig;
use crate::launch::format::{Format, format_of};
use crate::launch::pinned::{self, verified_copy};
use crate::launch::skip_reason::{LaunchedByOther, SkipReason};
use nri_api::{MAX_MESSAGE, PluginId};
use nri_trust::{Owners, read_regular_text};
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// File of a plugin that can be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PluginFile {
    pub(crate) id: PluginId,
    /// Path in the plugin directory. A symlink is not resolved, so that the program sees the name
    /// that it is installed under.
    pub(crate) path: PathBuf,
    /// Content of the configuration file; empty without one.
    pub(crate) config: String,
    /// The configuration file.
    pub(crate) config_file: Option<PathBuf>,
    /// Identity of the program, to notice its replacement.
    pub(crate) program: ProgramIdentity,
    /// Program that runs the file, if it is a WebAssembly module.
    pub(crate) wasm_host: Option<WasmHost>,
    /// Digest that the file must have, see [`pinned`].
    pub(crate) digest: Option<String>,
}

/// Program that runs a WebAssembly module, `nri-wasm-host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WasmHost {
    pub(crate) program: PathBuf,
    /// Limit of the module's memory in bytes.
    pub(crate) memory: u64,
}

impl PluginFile {
    /// Returns the command line of the plugin: its program and arguments.
    pub(crate) fn command(&self) -> Vec<OsString> {
        let path = self.path.clone().into_os_string();
        let Some(WasmHost { program, memory }) = &self.wasm_host else { return vec![path] };
        let module = if self.digest.is_some() { pinned::COPY.into() } else { path };
        vec![program.clone().into(), "--memory".into(), memory.to_string().into(), module]
    }

    /// Returns the file that is executed in place of the program's path.
    pub(crate) fn executable(&self) -> Option<String> {
        let is_copy = self.digest.is_some() && self.wasm_host.is_none();
        is_copy.then(|| pinned::COPY.to_owned())
    }
}

/// Device, inode, size and modification time (seconds, nanoseconds) of a program.
pub(crate) type ProgramIdentity = (u64, u64, u64, i64, i64);

/// A file that cannot be launched, and why.
#[derive(Debug)]
pub(crate) struct SkippedFile {
    pub(crate) path: PathBuf,
    pub(crate) reason: SkipReason,
}

/// The files of the plugin directory.
#[derive(Debug, Default)]
pub(crate) struct PluginFiles {
    /// Files that can be launched.
    pub(crate) files: Vec<PluginFile>,
    /// Files that cannot be launched.
    pub(crate) skipped: Vec<SkippedFile>,
    /// Files that are named like plugins and are not executable: plugins that an administrator has
    /// switched off, or has forgotten to make executable.
    pub(crate) not_executable: Vec<PathBuf>,
}

/// Examines the files of the plugin directories in the order of their names. A missing directory
/// counts as empty.
pub(crate) fn discover(config: &AdaptationConfig) -> PluginFiles {
    let PluginFiles { mut files, mut skipped, mut not_executable } = PluginFiles::default();
    let mut paths = Vec::new();
    for dir in config.plugin_dirs() {
        list(dir, config, &mut paths, &mut skipped);
    }
    // Stable, so that files of one name stay in the order of their directories.
    paths.sort_by(|a, b| a.file_name().cmp(&b.file_name()));
    for path in paths {
        let has_name = |file: &&PluginFile| file.path.file_name() == path.file_name();
        if let Some(first) = files.last().filter(has_name) {
            let reason = SkipReason::SameName(first.path.clone());
            skipped.push(SkippedFile { path, reason });
            continue;
        }
        match examine(&path, config) {
            Ok(Some(plugin)) => files.push(plugin),
            // An administrator has enabled it, and has not switched it off by its mode.
            Ok(None)
                if is_named_like_a_plugin(&path)
                    && path.parent() == Some(&config.own_plugin_path) =>
            {
                skipped.push(SkippedFile { path, reason: SkipReason::NotExecutable });
            }
            Ok(None) if is_named_like_a_plugin(&path) => not_executable.push(path),
            Ok(None) => {}
            Err(reason) => skipped.push(SkippedFile { path, reason }),
        }
    }
    PluginFiles { files, skipped, not_executable }
}

/// Adds the files of a directory that are to be launched to `paths`, and what cannot be read to
/// `skipped`.
fn list(
    dir: &Path,
    config: &AdaptationConfig,
    paths: &mut Vec<PathBuf>,
    skipped: &mut Vec<SkippedFile>,
) {
    let unreadable = |e| SkippedFile { path: dir.to_owned(), reason: SkipReason::Unreadable(e) };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return,
        Err(e) => return skipped.push(unreadable(e)),
    };
    for entry in entries {
        match entry {
            Ok(entry) if config.selects(&entry.path()) => paths.push(entry.path()),
            Ok(_) => {}
            Err(e) => skipped.push(unreadable(e)),
        }
    }
}

/// What a start does with a file of the plugin directory.
#[derive(Debug)]
pub enum FileUse {
    /// The plugin is launched.
    Launched,
    /// The file is named like a plugin and is not executable.
    Ignored,
    /// The file, or the whole directory, is skipped.
    Skipped(SkipReason),
}

/// Returns what a start does with each file of the plugin directory, sorted by path. Files that are
/// neither executable nor named like plugins are left out.
pub fn plugin_files(config: &AdaptationConfig) -> Vec<(PathBuf, FileUse)> {
    let PluginFiles { files, skipped, not_executable } = discover(config);
    let launched = files.into_iter().map(|file| (file.path, FileUse::Launched));
    let skipped = skipped.into_iter().map(|file| (file.path, FileUse::Skipped(file.reason)));
    let ignored = not_executable.into_iter().map(|path| (path, FileUse::Ignored));
    let mut all: Vec<_> = launched.chain(skipped).chain(ignored).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

/// Whether the path is a regular file whose name is of the form `NN-name`.
fn is_named_like_a_plugin(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| PluginId::from_file_name(name).is_ok()) && path.is_file()
}

/// Examines one file. Returns `None` if it is not an executable file and so not a plugin.
pub(crate) fn examine(
    path: &Path,
    config: &AdaptationConfig,
) -> Result<Option<PluginFile>, SkipReason> {
    // Follows symlinks: the mode of the target counts, because the mode of a link is always 0777.
    let meta = fs::metadata(path).map_err(SkipReason::Unreadable)?;
    let mode = meta.permissions().mode() & 0o7777;
    if !meta.is_file() || mode & 0o111 == 0 {
        return Ok(None);
    }
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let id = PluginId::from_file_name(&file)?;
    if let Some(other) = config.launched_by_other(path, &id) {
        return Err(LaunchedByOther(other.clone()).into());
    }
    let absolute = std::path::absolute(path).map_err(SkipReason::Unreadable)?;
    Owners::of_this_process().check(&absolute)?;
    let wasm_host = match format_of(path).map_err(SkipReason::Unreadable)? {
        Format::Native => None,
        Format::WebAssembly => Some(wasm_host(&id, config)?),
        Format::Unknown => return Err(SkipReason::NoProgram),
    };
    let program = (meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec());
    let digest = config.policy(&id).digest;
    if let Some(digest) = &digest {
        // The launch makes the copy that runs.
        verified_copy(path, digest)?;
    }
    let (config, config_file) = plugin_config(&id, &config.plugin_config_path)?;
    let path = path.to_owned();
    Ok(Some(PluginFile { id, path, config, config_file, program, wasm_host, digest }))
}

/// Returns the program that runs a WebAssembly module.
fn wasm_host(id: &PluginId, config: &AdaptationConfig) -> Result<WasmHost, SkipReason> {
    let program = config.wasm_host.clone().ok_or(SkipReason::NoWasmHost)?;
    Owners::of_this_process().check(&program).map_err(SkipReason::WasmHostUntrusted)?;
    Ok(WasmHost { program, memory: config.policy(id).wasm_memory })
}

/// Reads `NN-name.conf`, or else `name.conf`; empty if neither exists.
fn plugin_config(id: &PluginId, dir: &Path) -> Result<(String, Option<PathBuf>), SkipReason> {
    for name in [id.to_string(), id.name.to_string()] {
        let path = dir.join(name + ".conf");
        // If the working directory is unknown, a relative path is checked as it is.
        let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
        Owners::of_this_process()
            .check_if_exists(&absolute)
            .map_err(SkipReason::ConfigUntrusted)?;
        match read_regular_text(&path, MAX_MESSAGE as u64) {
            Ok(text) => return Ok((text, Some(path))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(SkipReason::Config { path, source }),
        }
    }
    Ok((String::new(), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::plugin_policy::PluginPolicy;
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    /// Replaces the messages of `nri-trust` in comparisons.
    const UNTRUSTED: &str = "(untrusted)";

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

        /// Discovers plugins. `found` has names and configurations, `skipped` names and reasons.
        /// Returns the names of files that are not executable.
        fn check(&self, found: &[(&str, &str)], skipped: &[(&str, &str)]) -> Vec<String> {
            let PluginFiles { files, skipped: skipped_files, not_executable } =
                discover(&self.config);
            let prefix = format!("{}/", self.dir.path().display());
            let files: Vec<_> =
                files.iter().map(|f| (f.id.to_string(), f.config.clone())).collect();
            let skipped_files: Vec<_> = skipped_files
                .iter()
                .map(|s| {
                    (
                        s.path.file_name().unwrap().to_string_lossy().into_owned(),
                        match &s.reason {
                            SkipReason::Untrusted(_) | SkipReason::ConfigUntrusted(_) => {
                                UNTRUSTED.to_owned()
                            }
                            reason => reason.to_string().replace(&prefix, ""),
                        },
                    )
                })
                .collect();
            let owned = |pairs: &[(&str, &str)]| {
                pairs.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect::<Vec<_>>()
            };
            assert_eq!(files, owned(found));
            assert_eq!(skipped_files, owned(skipped));
            let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
            not_executable.iter().map(name).collect()
        }
    }

    #[test]
    fn a_missing_directory_counts_as_empty() {
        let mut dirs = Dirs::new();
        dirs.config.plugin_path.push("missing");
        dirs.check(&[], &[]);
    }

    #[test]
    fn a_plugin_path_that_is_no_directory_is_skipped_with_a_reason() {
        let mut dirs = Dirs::new();
        dirs.config.plugin_path = dirs.file("notdir", 0o644, b"");
        dirs.check(&[], &[("notdir", "cannot be read")]);
    }

    #[test]
    fn trusted_executables_named_nn_name_are_found_and_others_skipped_or_ignored() {
        let dirs = Dirs::new();
        dirs.file("plugins/20-b", 0o755, b"#!");
        dirs.file("plugins/10-a", 0o700, b"\x7fELF");
        dirs.file("plugins/15-readme", 0o644, b"");
        dirs.file("plugins/nonumber", 0o755, b"#!");
        dirs.file("plugins/notes.txt", 0o644, b"");
        dirs.file("plugins/30-wasm", 0o755, b"\0asm\x01\0\0\0rest");
        // A module of another version is no program.
        dirs.file("plugins/31-nearly", 0o755, b"\0asm\x02\0\0\0rest");
        dirs.file("plugins/32-empty", 0o755, b"");
        dirs.file("plugins/33-text", 0o755, b"touch /tmp/as-root\n");
        dirs.file("plugins/40-open", 0o777, b"");
        dirs.file("plugins/41-shared", 0o775, b"");
        // The target of the link can be replaced by everybody, since its directory is writable.
        fs::create_dir(dirs.dir.path().join("free")).unwrap();
        fs::set_permissions(dirs.dir.path().join("free"), fs::Permissions::from_mode(0o777))
            .unwrap();
        symlink(dirs.file("free/program", 0o755, b"#!"), dirs.config.plugin_path.join("63-free"))
            .unwrap();
        fs::create_dir(dirs.config.plugin_path.join("50-dir")).unwrap();
        symlink(dirs.file("program", 0o755, b"#!"), dirs.config.plugin_path.join("60-link"))
            .unwrap();
        symlink(dirs.file("data", 0o644, b""), dirs.config.plugin_path.join("61-todata")).unwrap();
        symlink("/nonexistent/program", dirs.config.plugin_path.join("62-dangling")).unwrap();
        let no_program = "neither a program nor a script that begins with #! and its interpreter";
        let not_executable = dirs.check(
            &[("10-a", ""), ("20-b", ""), ("60-link", "")],
            &[
                ("30-wasm", "webassembly plugin, and nri-wasm-host is not installed"),
                ("31-nearly", no_program),
                ("32-empty", no_program),
                ("33-text", no_program),
                ("40-open", UNTRUSTED),
                ("41-shared", UNTRUSTED),
                ("62-dangling", "cannot be read"),
                ("63-free", UNTRUSTED),
                ("nonumber", "plugin file name \"nonumber\" is not of the form NN-name"),
            ],
        );
        assert_eq!(not_executable, ["15-readme", "61-todata"]);
    }

    #[test]
    fn a_webassembly_module_is_run_by_the_host() {
        let mut dirs = Dirs::new();
        let module = dirs.file("plugins/30-wasm", 0o755, b"\0asm\x01\0\0\0rest");
        let native = dirs.file("plugins/31-native", 0o755, b"#!");
        let host = dirs.file("nri-wasm-host", 0o755, b"#!");
        dirs.config.wasm_host = Some(host.clone());
        let policy = |wasm_memory| PluginPolicy {
            plugin: "30-wasm".into(),
            wasm_memory,
            ..PluginPolicy::default()
        };
        dirs.config.policies.push(policy(1 << 20));
        let files = discover(&dirs.config).files;
        let commands: Vec<_> = files.iter().map(PluginFile::command).collect();
        let limit = ["--memory", "1048576"].map(OsStr::new);
        assert_eq!(commands[0], [host.as_os_str(), limit[0], limit[1], module.as_os_str()]);
        assert_eq!(commands[1], [native.as_os_str()]);
        fs::set_permissions(&host, fs::Permissions::from_mode(0o777)).unwrap();
        let skipped = discover(&dirs.config).skipped;
        let reason = skipped[0].reason.to_string();
        let expected = "webassembly plugin, and nri-wasm-host is not trusted: ";
        assert!(reason.starts_with(expected), "{reason}");
    }

    #[test]
    fn a_file_with_another_digest_than_its_policy_is_skipped_with_both() {
        let mut dirs = Dirs::new();
        for name in ["10-pinned", "11-pinned", "12-free"] {
            dirs.file(&format!("plugins/{name}"), 0o755, b"#!/bin/sh\n");
        }
        dirs.file("plugins/11-pinned", 0o755, b"#!/bin/sh\nother\n");
        // Of sha256sum.
        let expected = "sha256:a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf";
        let found = "sha256:4b47c217778b67ed97d28f810db2a2fe197dd7139ccfea4dca304c5e7577a483";
        let digest = Some(expected.to_owned());
        let policy = PluginPolicy { plugin: "pinned".into(), digest, ..PluginPolicy::default() };
        dirs.config.policies.push(policy);
        let mismatch =
            format!("plugins/11-pinned has digest {found}, and not {expected} of its policy");
        dirs.check(&[("10-pinned", ""), ("12-free", "")], &[("11-pinned", &mismatch)]);
    }

    #[test]
    fn configuration_is_found_by_full_name_then_by_bare_name() {
        let dirs = Dirs::new();
        for name in ["10-a", "11-a", "12-b", "13-c"] {
            dirs.file(&format!("plugins/{name}"), 0o755, b"#!");
        }
        dirs.file("conf.d/a.conf", 0o644, b"any a");
        dirs.file("conf.d/10-a.conf", 0o644, b"this a");
        dirs.file("conf.d/13-c.conf", 0o644, b"\xff");
        dirs.file("plugins/14-d", 0o755, b"#!");
        dirs.file("conf.d/d.conf", 0o666, b"writable");
        dirs.check(
            &[("10-a", "this a"), ("11-a", "any a"), ("12-b", "")],
            &[
                (
                    "13-c",
                    "configuration conf.d/13-c.conf cannot be read: invalid utf-8 sequence of 1 \
                     bytes from index 0",
                ),
                ("14-d", UNTRUSTED),
            ],
        );
    }

    #[test]
    fn an_endless_or_too_large_configuration_is_skipped_with_a_reason() {
        let dirs = Dirs::new();
        for name in ["10-huge", "20-masked", "30-zero"] {
            dirs.file(&format!("plugins/{name}"), 0o755, b"#!");
        }
        let conf = |name: &str| dirs.config.plugin_config_path.join(name);
        fs::File::create(conf("10-huge.conf")).unwrap().set_len(1 << 40).unwrap();
        symlink("/dev/null", conf("20-masked.conf")).unwrap();
        symlink("/dev/zero", conf("30-zero.conf")).unwrap();
        dirs.check(
            &[("20-masked", "")],
            &[
                (
                    "10-huge",
                    "configuration conf.d/10-huge.conf cannot be read: the file is larger than \
                     the limit of 4194304 bytes",
                ),
                ("30-zero", "configuration conf.d/30-zero.conf cannot be read: not a regular file"),
            ],
        );
    }
}
