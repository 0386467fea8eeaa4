//! Checks that pure crates use no file, socket, clock, environment, thread or process.

use crate::clean;
use crate::modules::Modules;
use crate::source::{Source, rust};

/// Folders of the pure crates; unit tests in them are checked, too.
const PURE: &[&str] = &[
    "src/api/src",
    "src/merge/src",
    "src/mountinfo/src",
    "src/spec/src",
    "src/config/src",
    "src/engine/src",
    "src/cgroup/src",
];

/// Paths that access the host.
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
const FILE_METHODS: &[&str] = &[
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

/// Returns the paths and methods of a file that access the host.
fn impure(source: &Source) -> Vec<String> {
    let alone = |path: &str| (path == source.path).then(|| source.text.clone());
    let modules = Modules::read(&source.path, &alone).all;
    let paths = modules.iter().flat_map(|module| &module.paths).map(|(path, _)| path.join("::"));
    let paths = paths.map(|path| path.trim_start_matches("::").to_owned());
    let named = paths.filter(|path| IMPURE.iter().any(|banned| is_banned(path, banned)));
    let called = FILE_METHODS.iter().filter(|method| source.code.contains(&format!(".{method}()")));
    let called = called.map(|method| format!("the method {method}"));
    named.chain(called).map(|what| format!("{}: {what} in a pure crate", source.path)).collect()
}

/// Whether a path is the banned path, below it, or a module that contains it.
fn is_banned(path: &str, banned: &str) -> bool {
    let is_inside = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|r| r.is_empty() || r.starts_with("::"))
    };
    is_inside(path, banned) || is_inside(banned, path)
}

#[test]
fn pure_crates_do_not_access_the_host() {
    let check = |text, expected: &[&str]| {
        let expected: Vec<String> =
            expected.iter().map(|e| format!("a.rs: {e} in a pure crate")).collect();
        assert_eq!(impure(&Source::new("a.rs", text)), expected, "{text}");
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
    check("use std::time; use std as s; use std::io::*;", &["std::time", "std", "std::io"]);
    check("#[tokio::main] async fn main() {}", &["tokio::main"]);
    check("use tokio as t;", &["tokio"]);
    check("extern crate libc; fn f() { a!(::nix::b) }", &["libc", "nix::b"]);
    check("#[serde(with = \"std::env\")] struct S;", &["std::env"]);
    check("fn f(p: &Path) -> bool { p.exists() }", &["the method exists"]);
    check(
        "use std::time::Duration; // std::fs\nconst A: &str = \"std::net\"; use std::fmt; \
         fn f() { my::tokio::x(); }",
        &[],
    );

    for folder in PURE {
        assert!(rust().iter().any(|source| source.is_below(&[folder])), "{folder} has no sources");
    }
    clean(rust().iter().filter(|source| source.is_below(PURE)).flat_map(impure).collect());
}
