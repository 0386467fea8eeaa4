//! Parses and builds paths in the directory layouts of engines. Only absolute paths without `..`
//! and ids that are one path component are accepted, so that no built path leaves its parent.

use std::path::{Component, Path, PathBuf};

/// Length limit of an id in a path: file names have at most 255 bytes, ids of engines have 64.
const MAX_ID_LENGTH: usize = 255;

/// Whether an id is one path component of the characters that runtimes allow.
pub(crate) fn is_component(id: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_+-.".contains(&b);
    !id.is_empty()
        && id.len() <= MAX_ID_LENGTH
        && id.bytes().all(allowed)
        && id != "."
        && id != ".."
}

/// Returns the components of an absolute path; `None` if the path is relative, has `..` or is not
/// UTF-8.
pub(crate) fn components(path: &Path) -> Option<Vec<&str>> {
    let mut components = path.components();
    if components.next() != Some(Component::RootDir) {
        return None;
    }
    components.map(|c| if let Component::Normal(name) = c { name.to_str() } else { None }).collect()
}

/// Joins components to an absolute path.
pub(crate) fn absolute(components: &[&str]) -> PathBuf {
    Path::new("/").join(components.iter().collect::<PathBuf>())
}

/// Parses an absolute path without `..`.
pub(crate) fn checked(text: &str) -> Option<PathBuf> {
    components(Path::new(text)).filter(|c| !c.is_empty()).map(|c| absolute(&c))
}

/// Adds a path, unless the list already has it.
pub(crate) fn add_unique(paths: &mut Vec<PathBuf>, path: PathBuf) {
    if !paths.contains(&path) {
        paths.push(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_single_path_components() {
        for id in ["c1", "a.b_c-d+e", &"f".repeat(64)] {
            assert!(is_component(id), "{id}");
        }
        for id in ["", ".", "..", "a/b", "a\0b", "a b", "ü", &"f".repeat(256)] {
            assert!(!is_component(id), "{id}");
        }
    }

    #[test]
    fn only_absolute_paths_without_parent_components_are_accepted() {
        assert_eq!(components(Path::new("/a//./b/")), Some(vec!["a", "b"]));
        assert_eq!(components(Path::new("/")), Some(vec![]));
        for path in ["a/b", "", "/a/../b", "../a"] {
            assert_eq!(components(Path::new(path)), None, "{path}");
        }
        assert_eq!(checked("/a//b"), Some("/a/b".into()));
        assert_eq!((checked("/"), checked("a")), (None, None));
    }
}
