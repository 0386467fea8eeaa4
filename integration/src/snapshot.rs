//! Snapshots of directories and cgroups, to check that a call left the host unchanged.

use std::{
    collections::hash_map::DefaultHasher,
    fs,
    hash::{Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Returns a digest of everything below a directory: names, types, modes, owners, contents, link
/// targets, and the inode numbers and modification times of files.
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

/// Returns the cgroups of all hierarchies with `part` in their path, parents before children.
pub fn cgroups_of(part: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    visit(Path::new("/sys/fs/cgroup"), &mut |path, meta| {
        if meta.is_dir() && path.to_string_lossy().contains(part) {
            found.push(path.to_owned());
        }
    });
    found
}

/// Calls `handle` for everything below a directory, parents before children.
fn visit(dir: &Path, handle: &mut impl FnMut(&Path, &fs::Metadata)) {
    // Ignore an entry that disappears meanwhile, such as a cgroup of another test.
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut paths: Vec<_> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
    paths.sort();
    for path in paths {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        handle(&path, &meta);
        if meta.is_dir() {
            visit(&path, handle);
        }
    }
}
