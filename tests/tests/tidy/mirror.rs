//! Checks that a field that has a file in `nri-merge` has a file of the same name in `nri-spec`.
//! Not the other way round: fields with one value are merged by a list, and `nri-spec` does more.

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

/// Returns names that `nri-spec` lacks, and exceptions that are not needed.
fn unmirrored(
    merge: &BTreeSet<String>,
    spec: &BTreeSet<String>,
    merge_only: &[(&str, &str)],
) -> Vec<String> {
    let listed: BTreeSet<String> = merge_only.iter().map(|(name, _)| (*name).to_owned()).collect();
    let alone: BTreeSet<String> = merge.difference(spec).cloned().collect();
    let unlisted = alone.difference(&listed).map(|name| format!("{name} is only in merge"));
    let unneeded = listed.difference(&alone).map(|name| format!("{name} needs no exception"));
    unlisted.chain(unneeded).collect()
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
        assert_eq!(unmirrored(&set(merge), &set(spec), &[("m", "")]), expected);
    };
    check(&["a", "m"], &["a", "s"], &[]);
    check(&["a", "m"], &["s"], &["a is only in merge"]);
    check(&["m"], &["m", "s"], &["m needs no exception"]);

    clean(unmirrored(&modules("src/merge/src"), &modules("src/spec/src"), MERGE_ONLY));
}
