//! Whether a call left the host as it was.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// A digest of all that is below a directory: names, kinds, modes, owners, contents, links; and the
/// times of change of files.
pub fn digest_tree(dir: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    visit(dir, &mut |path, meta| {
        path.hash(&mut hasher);
        (meta.mode(), meta.uid(), meta.gid()).hash(&mut hasher);
        if meta.is_symlink() {
            fs::read_link(path).ok().hash(&mut hasher);
        } else if meta.is_file() {
            (meta.ino(), meta.mtime(), meta.mtime_nsec()).hash(&mut hasher);
            fs::read(path).ok().hash(&mut hasher);
        }
    });
    hasher.finish()
}

/// The cgroups, in all hierarchies, whose name holds `part`, and all below them; those before
/// these.
pub fn cgroups_of(part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    visit(Path::new("/sys/fs/cgroup"), &mut |path, meta| {
        if meta.is_dir() && path.to_string_lossy().contains(part) {
            found.push(path.to_owned());
        }
    });
    found
}

fn visit(dir: &Path, see: &mut impl FnMut(&Path, &fs::Metadata)) {
    // What vanishes meanwhile is not there: cgroups of others come and go.
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        see(&path, &meta);
        if meta.is_dir() {
            visit(&path, see);
        }
    }
}
