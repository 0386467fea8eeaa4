//! Bundles of `nrid`: a directory below the state directory for each container whose `config.json`
//! plugins were asked about. The wrapper passes it to the runtime in place of the engine's bundle,
//! whose files are not changed.
//!
//! The directory stays until the runtime has deleted the container and its `poststop` hooks have
//! ended: runtimes read `config.json` for `exec` and `checkpoint`, and hooks get the path of the
//! bundle. Its name is that of one creation, so the next container of the same id has another one.
//!
//! The engine's bundle is not changed, so that nothing has to be given back: it may be in use by
//! others, be exchanged meanwhile, hang, or outlive a power failure.

use crate::bundle::record::{BundleAccess, OwnBundle};
use std::{
    collections::HashSet,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, chown, fchown},
    path::{Path, PathBuf},
};

/// Directory of the bundles in the state directory.
const BUNDLES_DIR: &str = "bundles";

/// Name of the only file in a bundle.
pub const CONFIG_JSON: &str = "config.json";

/// Longest part of an id in the name of a bundle, in bytes.
const ID_LENGTH: usize = 64;

/// Mode of directories that lead to a bundle which others may read.
const SEARCHABLE: u32 = 0o711;

/// Returns the name of the bundle of a creation; `digest` is that of the container's key.
pub fn name(id: &str, digest: &str, incarnation: i64) -> String {
    let ends_id = |end: &usize| id.is_char_boundary(*end);
    let end = (0..=ID_LENGTH.min(id.len())).rfind(ends_id).unwrap_or_default();
    let (id, digest) = (&id[..end], &digest[..8]);
    format!("{id}-{digest}-{incarnation:x}")
}

/// Returns the path of a bundle.
pub fn path(state_dir: &Path, name: &str) -> PathBuf {
    state_dir.join(BUNDLES_DIR).join(name)
}

/// Writes a bundle. A directory of this name is replaced.
///
/// # Errors
/// The directory or the file cannot be written; then neither is left.
pub fn write(state_dir: &Path, own: &OwnBundle) -> io::Result<()> {
    let (dir, bundles) = (path(state_dir, &own.name), state_dir.join(BUNDLES_DIR));
    DirBuilder::new().recursive(true).mode(0o700).create(&bundles)?;
    remove(state_dir, &own.name);
    let config = own.config.as_deref().unwrap_or_default();
    let written = DirBuilder::new().mode(0o700).create(&dir).and_then(|()| {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let mut file = options.open(dir.join(CONFIG_JSON))?;
        file.write_all(config.as_bytes())?;
        let Some(access) = &own.access else { return Ok(()) };
        for way in [state_dir, &bundles] {
            fs::set_permissions(way, Permissions::from_mode(SEARCHABLE))?;
        }
        open_to(access, &dir, &file)
    });
    written.inspect_err(|_| remove(state_dir, &own.name))
}

fn open_to(access: &BundleAccess, dir: &Path, file: &File) -> io::Result<()> {
    chown(dir, None, Some(access.group))?;
    fchown(file, None, Some(access.group))?;
    // Only nrid writes there.
    file.set_permissions(Permissions::from_mode(access.file & 0o755))?;
    fs::set_permissions(dir, Permissions::from_mode(access.dir & 0o755))
}

/// Removes a bundle: `config.json`, and the files and empty directories that a hook has left there.
/// What a hook has mounted below it stays.
pub fn remove(state_dir: &Path, name: &str) {
    let dir = path(state_dir, name);
    for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let remove = if is_dir { fs::remove_dir } else { fs::remove_file };
        // Errors are those of the directory.
        let _ = remove(entry.path());
    }
    if let Err(error) = fs::remove_dir(&dir)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(dir = %dir.display(), %error, "bundle not removed, a hook has changed it");
    }
}

/// Reads the `config.json` of a bundle; `None` if it was removed.
pub fn read(state_dir: &Path, name: &str) -> Option<String> {
    fs::read_to_string(path(state_dir, name).join(CONFIG_JSON)).ok()
}

/// Removes bundles other than these, which have records: those of creations that a killed `nrid`
/// had not finished, and of containers that were deleted while it did not run.
pub fn remove_unknown<'a>(state_dir: &Path, recorded: impl Iterator<Item = &'a OwnBundle>) {
    let known: HashSet<_> = recorded.map(|own| own.name.as_str()).collect();
    for entry in fs::read_dir(state_dir.join(BUNDLES_DIR)).into_iter().flatten().flatten() {
        if let Some(name) = entry.file_name().to_str()
            && !known.contains(name)
        {
            remove(state_dir, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundles_of_records_stay_and_others_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let known = name("c1", "0123456789", 16);
        assert_eq!(known, "c1-01234567-10");
        let mut own =
            OwnBundle { name: String::new(), made_from: String::new(), access: None, config: None };
        for name in [known.as_str(), "c1-0-f", "c2-0-1"] {
            own.name = name.to_owned();
            for text in ["{\"earlier\": true}", "{}"] {
                own.config = Some(text.into());
                write(dir.path(), &own).unwrap();
            }
        }
        own.name.clone_from(&known);
        remove_unknown(dir.path(), [&own].into_iter());
        let left: Vec<_> = fs::read_dir(dir.path().join(BUNDLES_DIR)).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert_eq!(read(dir.path(), &known).unwrap(), "{}");
    }

    #[test]
    fn what_a_hook_has_put_into_a_bundle_is_removed_but_for_full_directories() {
        let dir = tempfile::tempdir().unwrap();
        let config = Some("{}".into());
        let (name, made_from) = ("c-0-1".to_owned(), String::new());
        let own = OwnBundle { name, made_from, access: None, config };
        write(dir.path(), &own).unwrap();
        let bundle = path(dir.path(), &own.name);
        fs::write(bundle.join("pid"), "1").unwrap();
        // As a mount is.
        fs::create_dir_all(bundle.join("mounted/data")).unwrap();
        fs::create_dir(bundle.join("empty")).unwrap();
        remove(dir.path(), &own.name);
        let left: Vec<_> = fs::read_dir(&bundle).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
        assert!(bundle.join("mounted/data").is_dir());
        fs::remove_dir(bundle.join("mounted/data")).unwrap();
        remove_unknown(dir.path(), std::iter::empty());
        assert!(!bundle.exists());
    }

    #[test]
    fn a_bundle_of_a_user_namespace_is_as_open_as_the_engines() {
        let dir = tempfile::tempdir().unwrap();
        let group = rustix::process::getegid().as_raw();
        let access = Some(BundleAccess { group, dir: 0o710, file: 0o666 });
        let (name, made_from) = ("c-0-1".to_owned(), String::new());
        let own = OwnBundle { name, made_from, access, config: Some("{}".into()) };
        write(dir.path(), &own).unwrap();
        let bundle = path(dir.path(), &own.name);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!([mode(&bundle), mode(&bundle.join(CONFIG_JSON))], [0o710, 0o644]);
        assert_eq!([mode(dir.path()), mode(&dir.path().join(BUNDLES_DIR))], [0o711; 2]);
    }
}
