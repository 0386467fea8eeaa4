//! Checks that pure crates use no file, socket, clock, environment, thread or process.

use crate::paths::paths;
use crate::source::{Source, rust};
use crate::{check, clean};

/// Folders of the pure crates; unit tests in them are checked, too.
const PURE: &[&str] = &[
    "src/api/src",
    "src/merge/src",
    "src/spec/src",
    "src/config/src",
    "src/engine/src",
    "src/cgroup/src",
];

const IMPURE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::thread",
    "std::process",
    "std::os::unix::net",
    "std::time::SystemTime",
    "std::time::Instant",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
    "tokio",
    "ttrpc",
    "rustix",
    "nix",
    "libc",
];

/// Methods of `Path` that access the file system.
const ASKING: &[&str] = &[
    "exists",
    "try_exists",
    "is_file",
    "is_dir",
    "is_symlink",
    "metadata",
    "symlink_metadata",
    "canonicalize",
    "read_dir",
    "read_link",
];

fn impure(source: &Source) -> Vec<String> {
    let named = paths(&source.code)
        .into_iter()
        .filter(|path| IMPURE.iter().any(|banned| meets(path, banned)));
    let asking = ASKING.iter().filter(|method| source.code.contains(&format!(".{method}()")));
    let asking = asking.map(|method| format!("the method {method}"));
    named.chain(asking).map(|what| format!("{}: {what} in a pure crate", source.path)).collect()
}

/// Whether a path is the banned path, below it, or a module that contains it.
fn meets(path: &str, banned: &str) -> bool {
    let whole = path.strip_suffix("::*").unwrap_or(path);
    let inside = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|r| r.is_empty() || r.starts_with("::"))
    };
    inside(whole, banned) || inside(banned, whole)
}

#[test]
fn pure_crates_are_pure() {
    let check = |text, expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|e| format!("a.rs: {e} in a pure crate")).collect();
        check(impure, "a.rs", text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    };
    check("use std::fs;", &["std::fs"]);
    check(
        "use std::{collections::BTreeMap, net::{IpAddr, UdpSocket}};",
        &["std::net::IpAddr", "std::net::UdpSocket"],
    );
    check(
        "fn f() { std::env::var(\"x\"); ::std::thread::spawn(g); }",
        &["std::env::var", "std::thread::spawn"],
    );
    check("use std::time::{Duration, Instant};", &["std::time::Instant"]);
    check("use std::time; use std as s; use std::io::*;", &["std::time", "std", "std::io::*"]);
    check("#[tokio::main] async fn main() {}", &["tokio::main"]);
    check("use tokio as t;", &["tokio"]);
    check("fn f(p: &Path) -> bool { p.exists() }", &["the method exists"]);
    check(
        "use std::time::Duration; // std::fs\nconst A: &str = \"std::net\"; use std::fmt; \
         my::tokio::x();",
        &[],
    );

    for folder in PURE {
        assert!(rust().iter().any(|source| source.below(&[folder])), "{folder} has no sources");
    }
    clean(rust().iter().filter(|source| source.below(PURE)).flat_map(impure).collect());
}
