//! Checks that file names of `nri-merge` and `nri-spec` match: a field has the same file name in
//! both crates.

use crate::clean;
use crate::source::root;
use std::collections::BTreeSet;

/// Folders that group files: only the names of their files are compared.
const GROUPS: &[&str] = &["fields", "resources", "json"];

/// Files and folders of `nri-merge` without a counterpart in `nri-spec`, with the reason.
const MERGE_ONLY: &[(&str, &str)] = &[
    ("create", "a request, not a field"),
    ("update", "a request, not a field"),
    ("updates", "a request, not a field"),
    ("merged", "the merged container and adjustment"),
    ("groups", "the list of the resource groups"),
    ("outcome", "the result of a request"),
    ("plugins_of", "fields of the OCI config have no owners"),
    ("owners", "fields of the OCI config have no owners"),
    ("marked", "lists and maps of the OCI config differ too much for one helper"),
    ("evictions", "no change of the OCI config"),
    ("ignored", "fields that updates cannot set"),
    ("unowned", "fields of the OCI config have no owners"),
    ("unknown", "fields of messages, which the OCI config does not have"),
    ("validator", "validates adjustments, not OCI configs"),
];

/// Files and folders of `nri-spec` without a counterpart in `nri-merge`, with the reason.
const SPEC_ONLY: &[(&str, &str)] = &[
    ("agreed_container", "the container after all of its fields are applied"),
    ("blockio_classes", "definitions of classes, which the merge does not read"),
    ("capability", "capabilities of runtimes, which the merge does not know"),
    ("class", "definitions of classes, which the merge does not read"),
    ("controller", "the conversion of resource fields"),
    ("container", "the whole OCI config as plugins see it"),
    ("context", "facts about the host"),
    ("convert", "the resources object of `update`"),
    ("diff", "the comparison of resources objects"),
    ("edit", "edits of JSON"),
    ("go_keys", "keys of JSON"),
    ("number", "numbers of JSON"),
    ("oci_config", "the OCI config itself"),
    ("rdt_classes", "definitions of classes, which the merge does not read"),
    ("read", "the conversion of JSON to messages"),
    ("wrong_type", "errors of JSON"),
];

/// Returns names that only one crate has, and exceptions that are not needed.
fn unmirrored(
    merge: &BTreeSet<String>,
    spec: &BTreeSet<String>,
    merge_only: &[(&str, &str)],
    spec_only: &[(&str, &str)],
) -> Vec<String> {
    let mut found = Vec::new();
    for (side, here, there, only) in
        [("merge", merge, spec, merge_only), ("spec", spec, merge, spec_only)]
    {
        let listed: BTreeSet<String> = only.iter().map(|(name, _)| (*name).to_owned()).collect();
        let alone: BTreeSet<String> = here.difference(there).cloned().collect();
        found.extend(alone.difference(&listed).map(|name| format!("{name} is only in {side}")));
        found.extend(
            listed.difference(&alone).map(|name| format!("{name} needs no exception in {side}")),
        );
    }
    found
}

/// Returns the module names in a folder and its groups.
fn modules(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root().join(folder)).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if GROUPS.contains(&name.as_str()) {
            found.append(&mut modules(&format!("{folder}/{name}")));
        } else if name != "mod.rs" {
            found.insert(name.trim_end_matches(".rs").to_owned());
        }
    }
    found
}

#[test]
fn file_names_of_merge_and_spec_match() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let check = |merge: &[&str], spec: &[&str], expected: &[&str]| {
        assert_eq!(unmirrored(&set(merge), &set(spec), &[("m", "")], &[("s", "")]), expected);
    };
    check(&["a", "m"], &["a", "s"], &[]);
    check(&["a", "m"], &["s"], &["a is only in merge"]);
    check(&["m"], &["b", "s"], &["b is only in spec"]);
    check(&["m"], &["m", "s"], &["m needs no exception in merge"]);
    check(&[], &["s"], &["m needs no exception in merge"]);

    clean(unmirrored(&modules("src/merge/src"), &modules("src/spec/src"), MERGE_ONLY, SPEC_ONLY));
}
