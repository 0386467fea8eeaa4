//! Checks that the crates for other runtimes have no trace of `nrid`: neither its names, nor its
//! configuration file, nor environment variables other than those of NRI.

use crate::source::{Source, sources};
use crate::{check, clean};

/// Folders of the crates that other runtimes link. Tests are exempt.
const FOLDERS: &[&str] = &[
    "src/adaptation/",
    "src/api/",
    "src/capi/",
    "src/merge/",
    "src/mountinfo/",
    "src/runtime/",
    "src/spec/",
    "src/trust/",
    "src/wire/",
];

/// Names of our programs, of the crates that only they use, and of parts of their configuration.
const OURS: &[&str] = &[
    "nrid",
    "nrictl",
    "nri-container-runtime",
    "nri-oci-hook",
    "nri-config",
    "nri-locate",
    "nri-args",
    "config.toml",
    "[connections]",
    "[[plugin]]",
];

/// Environment variables of the protocol. In tests inside of sources, other variables are allowed.
const VARIABLES: &[&str] = &["NRI_PLUGIN_NAME", "NRI_PLUGIN_IDX", "NRI_PLUGIN_SOCKET"];

/// Returns names of ours in a file, and variables that are not of NRI.
fn traces(source: &Source) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut found = Vec::new();
    let product = source.text.split("#[cfg(test)]").next().unwrap_or_default();
    for (number, line) in product.lines().enumerate() {
        let here = format!("{}:{}", source.path, number + 1);
        for name in OURS {
            let is_whole = |(at, _): (usize, &str)| {
                !line[..at].ends_with(is_word) && !line[at + name.len()..].starts_with(is_word)
            };
            if line.match_indices(name).any(is_whole) {
                found.push(format!("{here}: {name}"));
            }
        }
        for part in line.split("\"NRI_").skip(1) {
            let variable = format!("NRI_{}", part.split('"').next().unwrap_or_default());
            if !VARIABLES.contains(&variable.as_str()) {
                found.push(format!("{here}: the variable {variable}"));
            }
        }
    }
    found
}

#[test]
fn crates_for_other_runtimes_have_no_trace_of_nrid() {
    check(traces, "a.rs", "\"a nridge\" // nri-containers NRI_X", &[]);
    check(traces, "a.rs", "env(\"NRI_PLUGIN_IDX\")\n#[cfg(test)]\nenv(\"NRI_X\")", &[]);
    check(
        traces,
        "a.rs",
        "//! for `nrid`\nadd it to [connections] allow_uids\nenv(\"NRI_X\")",
        &["a.rs:1: nrid", "a.rs:2: [connections]", "a.rs:3: the variable NRI_X"],
    );

    let all = sources(&["rs", "h", "c", "md", "toml", "in", "proto"]);
    let is_ours = |source: &&Source| {
        FOLDERS.iter().any(|folder| source.path.starts_with(folder))
            && !source.path.contains("/tests/")
            && !source.is_generated()
    };
    let checked: Vec<_> = all.iter().filter(is_ours).collect();
    for folder in FOLDERS {
        let count = checked.iter().filter(|s| s.path.starts_with(folder)).count();
        assert!(count > 2, "{folder} has {count} files: were they moved?");
    }
    clean(checked.into_iter().flat_map(traces).collect());
}
