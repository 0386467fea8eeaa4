//! The two forms of `linux.cgroupsPath`: a path below the hierarchy, and systemd's
//! `slice:prefix:name`.

use std::path::{Component, Path};

/// A parsed `linux.cgroupsPath`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum CgroupsPath<'a> {
    /// The form of systemd: the unit `prefix-name.scope` in the slice.
    Systemd { slice: &'a str, prefix: &'a str, name: &'a str },
    /// A path below the cgroup hierarchy.
    Path(&'a Path),
}

impl<'a> CgroupsPath<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        match text.split(':').collect::<Vec<_>>().as_slice() {
            &[slice, prefix, name] => Self::Systemd { slice, prefix, name },
            _ => Self::Path(Path::new(text)),
        }
    }

    /// Returns the last two components of a path, parent first; `None` for systemd's form.
    pub(crate) fn last_two(&self) -> Option<(&'a str, &'a str)> {
        let Self::Path(path) = self else { return None };
        let mut components = path.components().rev();
        let mut next = || match components.next() {
            Some(Component::Normal(name)) => name.to_str(),
            _ => None,
        };
        let last = next()?;
        Some((next()?, last))
    }
}

/// Returns the parent of a cgroup: the path without the last component, or the slice.
pub(crate) fn parent(cgroups_path: &str) -> String {
    match CgroupsPath::parse(cgroups_path) {
        CgroupsPath::Systemd { slice, .. } => slice.to_owned(),
        CgroupsPath::Path(path) => {
            path.parent().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_is_the_directory_or_the_slice() {
        for (path, expected) in [
            ("/a/b/c", "/a/b"),
            ("/c", "/"),
            ("", ""),
            ("system.slice:docker:c", "system.slice"),
            (":cri:c", ""),
        ] {
            assert_eq!(parent(path), expected, "{path}");
        }
    }

    #[test]
    fn last_two_components_exist_only_in_plain_paths() {
        for (path, expected) in [
            ("/a/b/c", Some(("b", "c"))),
            ("b/c/", Some(("b", "c"))),
            ("/c", None),
            ("/b/../c", None),
            ("s:b:c", None),
            ("", None),
        ] {
            assert_eq!(CgroupsPath::parse(path).last_two(), expected, "{path}");
        }
    }
}
