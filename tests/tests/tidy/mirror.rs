//! File names of the merge and of the document mirror each other: a field has the same name in
//! both.

use crate::clean;
use crate::source::root;
use std::collections::BTreeSet;

/// Files and folders of the merge that the document has no counterpart of, and why.
const MERGE_ONLY: &[(&str, &str)] = &[
    ("create", "a request, not a field"),
    ("update", "a request, not a field"),
    ("updates", "a request, not a field"),
    ("merged", "the list of the groups; the document's is `apply`"),
    ("outcome", "what comes out of a request"),
    ("owners", "the document has no owners"),
    ("marked", "the document's lists and maps differ too much to be served by one helper"),
    ("evictions", "no change of a document"),
    ("ignored", "what only updates have no say in"),
    ("validator", "judges adjustments, not documents"),
];

/// Files and folders of the document that the merge has no counterpart of, and why.
const SPEC_ONLY: &[(&str, &str)] = &[
    ("apply", "the list of the groups; the merge's is `merged`"),
    ("capability", "what runtimes can do; plugins are merged without asking"),
    ("container", "the whole document as plugins see it"),
    ("context", "what the host knows"),
    ("diff", "documents against each other"),
    ("oci_config", "the whole OCI config"),
    ("edit", "changes of JSON"),
    ("number", "numbers of JSON"),
    ("read", "JSON to messages"),
];

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
        found.extend(alone.difference(&listed).map(|name| format!("{name} is in {side} alone")));
        found.extend(
            listed.difference(&alone).map(|name| format!("{name} is no exception of {side}")),
        );
    }
    found
}

/// Names of the modules in a folder.
fn modules(folder: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.map(|name| name.trim_end_matches(".rs").to_owned()).collect()
}

#[test]
fn names_of_merge_and_document_mirror_each_other() {
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let check = |merge: &[&str], spec: &[&str], expected: &[&str]| {
        assert_eq!(unmirrored(&set(merge), &set(spec), &[("m", "")], &[("s", "")]), expected);
    };
    check(&["a", "m"], &["a", "s"], &[]);
    check(&["a", "m"], &["s"], &["a is in merge alone"]);
    check(&["m"], &["b", "s"], &["b is in spec alone"]);
    check(&["m"], &["m", "s"], &["m is no exception of merge"]);
    check(&[], &["s"], &["m is no exception of merge"]);

    clean(unmirrored(&modules("src/merge/src"), &modules("src/spec/src"), MERGE_ONLY, SPEC_ONLY));
}
