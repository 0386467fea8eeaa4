//! Resolves the root directories (`--root`) of runtimes. The root is a part of a container's key,
//! so all paths of one directory must give the same text.

use std::path::{Component, Path, PathBuf};

/// Resolves links in the part of `root` that exists. The first container after a boot is created
/// before the root exists, and must have the same key as later containers: `/var/run/x` becomes
/// `/run/x` in either case.
pub fn resolved_root(root: &Path) -> PathBuf {
    for existing in root.ancestors() {
        if let Ok(resolved) = std::fs::canonicalize(existing) {
            let missing: Vec<_> =
                root.strip_prefix(existing).iter().flat_map(|m| m.components()).collect();
            // `..` below a missing directory cannot be resolved.
            let is_resolvable = missing.iter().all(|c| matches!(c, Component::Normal(_)));
            let path = [Component::RootDir]
                .into_iter()
                .chain(resolved.components().skip(1))
                .chain(missing);
            return if is_resolvable { path.collect() } else { root.to_owned() };
        }
    }
    root.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_resolved_before_and_after_the_directory_is_created() {
        let dir = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(dir.path()).unwrap();
        std::fs::create_dir(real.join("run")).unwrap();
        std::os::unix::fs::symlink("run", real.join("link")).unwrap();
        for root in ["link/a/b", "run/a/b", "link/./a//b/"] {
            // Keys are compared as text.
            assert_eq!(
                resolved_root(&real.join(root)).as_os_str(),
                real.join("run/a/b").as_os_str(),
                "{root}"
            );
        }
        std::fs::create_dir_all(real.join("run/a/b")).unwrap();
        assert_eq!(
            resolved_root(&real.join("link/a/b/")).as_os_str(),
            real.join("run/a/b").as_os_str()
        );
        assert_eq!(resolved_root(&real.join("missing/../link")), real.join("missing/../link"));
        assert_eq!(
            resolved_root(Path::new("relative-and-absent")),
            Path::new("relative-and-absent")
        );
    }
}
