//! Checks that each module begins with a `//!` comment, which says what it is for, and that
//! generated code is marked.

use crate::source::{Source, rust};
use crate::{check, clean};

fn undocumented(source: &Source) -> Vec<String> {
    let docs = source.text.lines().position(|line| line.starts_with("//!"));
    let before: String = source.code.lines().take(docs.unwrap_or(0)).map(str::trim).collect();
    let is_first = docs.is_some()
        && (before.is_empty() || (before.starts_with("#![") && before.ends_with(']')));
    if is_first || source.is_generated() {
        vec![]
    } else {
        vec![format!("{}: does not begin with //!", source.path)]
    }
}

fn unmarked(source: &Source) -> Vec<String> {
    let is_marked = source
        .text
        .lines()
        .take(5)
        .any(|line| line.starts_with("//") && line.contains("@generated"));
    match (source.is_generated(), is_marked) {
        (true, false) => vec![format!(
            "{}: in a folder `generated`, but no `@generated` comment in its first 5 lines",
            source.path
        )],
        (false, true) => {
            vec![format!("{}: marked `@generated`, but not in a folder `generated`", source.path)]
        }
        _ => vec![],
    }
}

#[test]
fn every_module_has_a_module_doc_comment() {
    check(undocumented, "a.rs", "//! What.\n\nfn f() {}", &[]);
    check(undocumented, "a.rs", "// why\n#![no_main]\n\n//! What.\n", &[]);
    check(undocumented, "a.rs", "use b;\n", &["a.rs: does not begin with //!"]);
    check(
        undocumented,
        "a.rs",
        "use b;\nmod c {\n//! What.\n}",
        &["a.rs: does not begin with //!"],
    );
    check(undocumented, "a.rs", "", &["a.rs: does not begin with //!"]);
    clean(rust().iter().flat_map(undocumented).collect());
}

#[test]
fn generated_code_is_marked() {
    check(unmarked, "a/generated/b.rs", "// x\n// @generated\n", &[]);
    check(
        unmarked,
        "a/generated/b.rs",
        "// x\n",
        &["a/generated/b.rs: in a folder `generated`, but no `@generated` comment in its first 5 \
           lines"],
    );
    check(
        unmarked,
        "a/b.rs",
        "// @generated\n",
        &["a/b.rs: marked `@generated`, but not in a folder `generated`"],
    );
    clean(rust().iter().flat_map(unmarked).collect());
}
