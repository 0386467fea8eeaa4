//! Checks that only the listed modules have unsafe code, and that each use has a SAFETY comment.

use crate::source::{Source, rust};
use crate::{check, clean};

/// Modules that may have unsafe code.
const ALLOWED: &[&str] = &[
    "shim/src/entry.rs",
    "shim/src/heap.rs",
    "shim/src/runtime/sys.rs",
    "src/adaptation/src/launch/exec.rs",
    "src/capi/src/callbacks.rs",
    "src/capi/src/ffi.rs",
    "src/service/src/host/sys.rs",
    "src/wasm/guest/src/exports.rs",
    "tests/src/bin/fake_runtime.rs",
    "integration/before_6_15/main.rs",
];

/// Returns unsafe code outside of the listed modules or without a comment.
fn unreasoned(source: &Source) -> Vec<String> {
    let text: Vec<&str> = source.text.lines().collect();
    let mut found = Vec::new();
    for (number, line) in source.code.lines().enumerate() {
        for (at, _) in line.match_indices("unsafe") {
            let is_word_char = |c: char| c.is_alphanumeric() || c == '_';
            let after = &line[at + "unsafe".len()..];
            if line[..at].ends_with(is_word_char) || after.starts_with(is_word_char) {
                continue; // part of a longer word
            }
            let here = format!("{}:{}", source.path, number + 1);
            if !ALLOWED.contains(&source.path.as_str()) {
                found.push(format!("{here}: unsafe code outside of the listed modules"));
            }
            // An unsafe attribute asserts a symbol name; one comment for the module suffices.
            let is_attribute = after.trim_start().starts_with('(');
            let after = after.trim_start();
            let is_function =
                after.starts_with("fn") || after.starts_with("extern") && after.contains(" fn ");
            let wanted = if is_function { "# Safety" } else { "SAFETY: " };
            let above = text[..number].iter().rev().map(|above| above.trim());
            let mut above =
                above.take_while(|above| above.starts_with("//") || above.starts_with("#["));
            if !is_attribute && !above.any(|above| above.contains(wanted)) {
                found.push(format!("{here}: no {wanted}"));
            }
        }
    }
    let allows = source.code.contains("allow(unsafe_code");
    if allows && !ALLOWED.contains(&source.path.as_str()) && !source.is_generated() {
        found.push(format!("{}: allows unsafe code", source.path));
    }
    found
}

#[test]
fn unsafe_code_is_in_listed_modules_and_has_safety_comments() {
    let (listed, other) = (ALLOWED[0], "src/merge/src/lib.rs");
    check(unreasoned, listed, "// SAFETY: a\n// b\nlet x = unsafe { f() };", &[]);
    check(unreasoned, listed, "/// # Safety\n/// a\n#[cfg(x)]\nunsafe fn f() {}", &[]);
    check(unreasoned, listed, "#[unsafe(no_mangle)] // unsafe { }\n#![forbid(unsafe_code)]", &[]);
    check(unreasoned, listed, "let x = unsafe { f() };", &["shim/src/entry.rs:1: no SAFETY: "]);
    check(
        unreasoned,
        listed,
        "// SAFETY: a\n\nunsafe { f() }",
        &["shim/src/entry.rs:3: no SAFETY: "],
    );
    check(unreasoned, listed, "/// a\nunsafe fn f() {}", &["shim/src/entry.rs:2: no # Safety"]);
    check(
        unreasoned,
        listed,
        "/// a\npub unsafe extern \"C\" fn f() {}",
        &["shim/src/entry.rs:2: no # Safety"],
    );
    check(
        unreasoned,
        other,
        "#![allow(unsafe_code)]\n// SAFETY: a\nunsafe { f() }",
        &[
            "src/merge/src/lib.rs:3: unsafe code outside of the listed modules",
            "src/merge/src/lib.rs: allows unsafe code",
        ],
    );

    for module in ALLOWED {
        let uses =
            |source: &Source| source.path == *module && source.code.contains("allow(unsafe_code");
        assert!(rust().iter().any(uses), "{module} has no unsafe code: remove it from ALLOWED");
    }
    clean(rust().iter().flat_map(unreasoned).collect());
}
