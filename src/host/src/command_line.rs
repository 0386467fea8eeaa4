//! Options on the command lines of engines, and the paths that these options name.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Returns the values of the option that has any of `names`, in the order of the command line.
/// Finds the forms `--name value` and `--name=value`, also with a single `-`.
pub(crate) fn option_values<'a>(arguments: &'a [String], names: &[&str]) -> Vec<&'a str> {
    let mut arguments = arguments.iter().skip(1);
    let mut values = Vec::new();
    while let Some(argument) = arguments.next() {
        let option = argument.trim_start_matches('-');
        if option == argument {
            continue;
        }
        match option.split_once('=') {
            Some((name, value)) if names.contains(&name) => values.push(value),
            None if names.contains(&option) => values.extend(arguments.next().map(String::as_str)),
            _ => {}
        }
    }
    values
}

/// Makes a path from the command line of a process absolute. The result is valid in the root
/// directory of that process.
pub(crate) fn absolute(pid: i32, path: &Path) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_else(|_| "/".into()).join(path)
}

/// Returns the path of a file in another root directory.
pub(crate) fn in_root(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Returns the root directory of a process, in its mount namespace.
pub(crate) fn root_of(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/root"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_in_every_form() {
        for (line, expected) in [
            ("containerd -c /a.toml", &["/a.toml"][..]),
            ("containerd --log-level debug --config=/a.toml", &["/a.toml"]),
            ("containerd --config /a.toml", &["/a.toml"]),
            ("containerd -config /a.toml -c /b.toml", &["/a.toml", "/b.toml"]),
            ("containerd", &[]),
            ("containerd config", &[]),
            ("containerd -c", &[]),
        ] {
            let arguments: Vec<_> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(option_values(&arguments, &["config", "c"]), expected, "{line}");
        }
    }
}
