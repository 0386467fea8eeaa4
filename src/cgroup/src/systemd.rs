//! The systemd cgroup driver: paths of the form `slice:prefix:name`.

use std::path::PathBuf;

/// Path of the scope (or slice) below the root of each hierarchy; `None` if `cgroups_path` is not
/// of the form `slice:prefix:name`, or if the unit name has a slash, which systemd refuses. An
/// empty slice means `system.slice`, as for runtimes that run as root.
pub fn scope_path(cgroups_path: &str) -> Option<PathBuf> {
    let parts: Vec<_> = cgroups_path.split(':').collect();
    let [slice, prefix, name] = parts.as_slice() else { return None };
    if name.contains('/') || prefix.contains('/') {
        return None;
    }
    let slice = if slice.is_empty() { "system.slice" } else { slice };
    let mut path = slice_path(slice)?;
    if name.ends_with(".slice") {
        path.push(name);
    } else if prefix.is_empty() {
        path.push(format!("{name}.scope"));
    } else {
        path.push(format!("{prefix}-{name}.scope"));
    }
    Some(path)
}

/// Path of a slice. By systemd.slice(5), `a-b.slice` is below `a.slice`.
fn slice_path(slice: &str) -> Option<PathBuf> {
    let mut path = PathBuf::from("/");
    let name = slice.strip_suffix(".slice")?;
    if name == "-" {
        return Some(path);
    }
    if name.contains('/') || name.split('-').any(str::is_empty) {
        return None;
    }
    for (end, _) in name.match_indices('-') {
        path.push(format!("{}.slice", &name[..end]));
    }
    path.push(slice);
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn slices_nest_by_dashes() {
        for (text, path) in [
            ("system.slice:docker:c", Some("/system.slice/docker-c.scope")),
            (
                "kubepods-burstable-podx.slice:cri:c",
                Some(concat!(
                    "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podx.slice",
                    "/cri-c.scope"
                )),
            ),
            (":runc:c", Some("/system.slice/runc-c.scope")),
            ("-.slice::c", Some("/c.scope")),
            ("a.slice:x:b.slice", Some("/a.slice/b.slice")),
            ("a--b.slice:x:c", None),
            ("../x.slice:x:c", None),
            ("a.slice:x:/b.slice", None),
            ("a.slice::/b", None),
            ("a.slice:x/../..:c", None),
            ("a:b:c", None),
            ("/a/b", None),
        ] {
            assert_eq!(scope_path(text).as_deref(), path.map(Path::new), "{text}");
        }
    }
}
