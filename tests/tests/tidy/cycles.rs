//! Checks that modules have no import cycles: in each crate, the imports of the files form a DAG.
//!
//! A parent and a child that name each other's items form a cycle; move the shared items to a file
//! below both.

use crate::clean;
use crate::imports::{Edges, edges};
use crate::modules::Modules;
use crate::source::{rust, sources};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use toml::{Table, Value};

/// Maximum number of printed cycles per target. The removal of one cycle often removes others.
const PRINTED: usize = 12;

/// Returns the files of the shortest cycle, if there is a cycle.
fn shortest(edges: &Edges) -> Option<Vec<String>> {
    let cycles = edges.keys().filter_map(|start| {
        let mut previous: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([start.as_str()]);
        while let Some(file) = queue.pop_front() {
            for needed in edges.get(file).into_iter().flat_map(BTreeMap::keys) {
                if needed == start {
                    let mut cycle = vec![start.clone()];
                    let mut at = file;
                    while at != start {
                        cycle.insert(1, at.to_owned());
                        at = previous[at];
                    }
                    return Some(cycle);
                }
                if !previous.contains_key(needed.as_str()) {
                    previous.insert(needed, file);
                    queue.push_back(needed);
                }
            }
        }
        None
    });
    cycles.min_by_key(Vec::len)
}

/// Returns the cycles of a target, shortest first, as `a.rs:3 -> b.rs:5 -> a.rs`. The search for
/// the next cycle ignores the last import of each cycle found.
fn cycles(mut edges: Edges) -> Vec<String> {
    let mut found = vec![];
    while let Some(cycle) = shortest(&edges) {
        if found.len() == PRINTED {
            found.push("… and more".to_owned());
            break;
        }
        let needed = cycle.iter().cycle().skip(1);
        let steps: Vec<String> = cycle
            .iter()
            .zip(needed)
            .map(|(file, needed)| format!("{file}:{}", edges[file][needed]))
            .collect();
        found.push(format!("{} -> {}", steps.join(" -> "), cycle[0]));
        let last = &cycle[cycle.len() - 1];
        edges.get_mut(last).unwrap().remove(&cycle[0]);
    }
    found
}

/// Returns the root files of a package's targets by the rules of Cargo.
fn roots(folder: &str, manifest: &Table, files: &BTreeSet<&str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files {
        let Some(path) = path.strip_prefix(folder).and_then(|p| p.strip_prefix('/')) else {
            continue;
        };
        let parts: Vec<&str> = path.split('/').collect();
        let root = matches!(
            parts[..],
            ["build.rs"]
                | ["src", "lib.rs" | "main.rs"]
                | ["src", "bin", _]
                | ["src", "bin", _, "main.rs"]
                | ["tests" | "examples" | "benches", _]
                | ["tests" | "examples" | "benches", _, "main.rs"]
        );
        if root {
            found.insert(format!("{folder}/{path}"));
        }
    }
    let lib = manifest.get("lib").into_iter();
    let lists = ["bin", "test", "example", "bench"].map(|kind| manifest.get(kind));
    let lists = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
    let paths = lib.chain(lists).filter_map(|target| target.get("path")?.as_str());
    found.extend(paths.map(|path| format!("{folder}/{path}")));
    found
}

/// Returns the cycles of all crates, and the files of all targets.
fn of_crates(
    manifests: &[(String, Table)],
    texts: &BTreeMap<&str, &str>,
) -> (Vec<String>, BTreeSet<String>) {
    let (mut found, mut compiled) = (vec![], BTreeSet::new());
    let files = texts.keys().copied().collect();
    for (folder, manifest) in manifests {
        for root in roots(folder, manifest, &files) {
            let modules =
                Modules::read(&root, &|path| texts.get(path).map(|text| (*text).to_owned()));
            found.extend(cycles(edges(&modules.all)));
            compiled.extend(modules.all.into_iter().map(|module| module.file));
        }
    }
    (found, compiled)
}

/// Applies the rule to one crate, `a`, with these files.
#[track_caller]
fn check(files: &[(&str, &str)], expected: &[&str]) {
    let texts: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("a/src/{path}"), *text)).collect();
    let texts = texts.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let (found, _) = of_crates(&[("a".to_owned(), Table::new())], &texts);
    let short: Vec<String> = found.iter().map(|line| line.replace("a/src/", "")).collect();
    assert_eq!(short, expected);
}

#[test]
fn an_import_cycle_is_found_and_printed() {
    let lib = ("lib.rs", "mod b;\nmod c;");
    let (b, c) = ("pub struct B;\nuse crate::c::C;", "use super::b;\npub struct C(b::B);");
    check(&[lib, ("b.rs", b), ("c.rs", c)], &["b.rs:2 -> c.rs:1 -> b.rs"]);
    check(&[lib, ("b.rs", "pub struct B;"), ("c.rs", c)], &[]);
    check(&[lib, ("b.rs", b), ("c.rs", "pub struct C;")], &[]);

    let three = ("lib.rs", "mod b;\nmod c;\nmod d;");
    let d = ("d.rs", "pub fn d() -> crate::b::B { crate::b::B }");
    let through = ("c.rs", "pub struct C;\nfn c() { format!(\"{}\", crate::d::d()) }");
    let expected = "b.rs:2 -> c.rs:2 -> d.rs:1 -> b.rs";
    check(&[three, ("b.rs", b), through, d], &[expected]);
    check(&[three, ("b.rs", b), through, ("d.rs", "pub fn d() {}")], &[]);
}

#[test]
fn a_child_and_its_parent_form_a_cycle_if_each_uses_the_other() {
    let parent = ("lib.rs", "mod b;\nuse b::B;\npub struct A(B);");
    check(&[parent, ("b.rs", "pub struct B(crate::A);")], &["b.rs:1 -> lib.rs:2 -> b.rs"]);
    check(&[("lib.rs", "mod b;\npub struct A;"), ("b.rs", "use super::A;")], &[]);
    // An item that the parent only re-exports is no dependency on the parent.
    let facade = ("lib.rs", "mod b;\nmod c;\npub use b::B;\npub use c::*;");
    check(&[facade, ("b.rs", "pub struct B;"), ("c.rs", "pub struct C(crate::B);")], &[]);
    let cycle = [facade, ("b.rs", "pub struct B(crate::C);"), ("c.rs", "pub struct C(crate::B);")];
    check(&cycle, &["b.rs:1 -> c.rs:1 -> b.rs"]);
    // Tests in the file itself, and tests in a separate file.
    check(&[("lib.rs", "pub fn f() {}\nmod t { use super::*; use super::f; }")], &[]);
    check(&[("lib.rs", "pub fn f() {}\nmod t;"), ("t.rs", "use super::*;")], &[]);
    check(
        &[("lib.rs", "use t::g;\npub fn f() {}\nmod t;"), ("t.rs", "use super::*;\npub fn g() {}")],
        &["lib.rs:1 -> t.rs:1 -> lib.rs"],
    );
}

#[test]
fn modules_are_found_where_rustc_finds_them() {
    let cycle = "b/c/d.rs:1 -> b/mod.rs:1 -> b/c/d.rs";
    check(
        &[
            ("lib.rs", "mod b;"),
            ("b/mod.rs", "pub use c::d::D as E;\nmod c { pub mod d; }\npub struct B;"),
            ("b/c/d.rs", "pub struct D(pub(in crate::b) super::super::B);"),
        ],
        &[cycle],
    );
    check(
        &[
            ("lib.rs", "#[path = \"x/y.rs\"]\nmod b;\nuse b::f;\npub fn a() {}"),
            ("x/y.rs", "mod z;\npub fn f() { z::g() }"),
            ("x/z.rs", "#[derive(S)]\npub struct T {\n#[serde(default = \"crate::a\")]\na: u8 }"),
        ],
        &["lib.rs:3 -> x/y.rs:2 -> x/z.rs:3 -> lib.rs"],
    );
    check(
        &[
            ("lib.rs", "mod b;\nuse b::T;\npub fn a() {}"),
            ("b.rs", "pub struct T {\n#[serde(default = \"crate::a\")]\na: u8 }"),
        ],
        &["b.rs:2 -> lib.rs:2 -> b.rs"],
    );
    check(
        &[
            ("lib.rs", "mod b;\npub use other as o;\nuse b::f;"),
            ("b.rs", "pub fn f() { crate::o::x() }"),
        ],
        &[],
    );
    check(&[("lib.rs", "use serde::a;\nuse std::fmt;\nfn f() { fmt::x(); serde::y() }")], &[]);
}

#[test]
fn paths_in_attributes_are_imports() {
    let lib = ("lib.rs", "mod b;\nmod c;");
    let c = ("c.rs", "use crate::b::B;\npub const NAME: &str = \"c\";");
    let check_attribute = |attribute: &str, is_import: bool| {
        let b = format!("#[derive(X)]\n{attribute}\npub struct B;");
        let expected: &[&str] = if is_import { &["b.rs:2 -> c.rs:1 -> b.rs"] } else { &[] };
        check(&[lib, ("b.rs", &b), c], expected);
    };
    check_attribute("#[error(\"log of {ID}\", ID = crate::c::NAME)]", true);
    check_attribute("#[arg(value_parser = super::c::parse)]", true);
    check_attribute("#[command(a(b = crate::c::parse, d))]", true);
    check_attribute("#[serde(with = \"crate::c\")]", true);
    check_attribute("#[crate::c::attribute]", true);
    check_attribute("#[a = crate::c::NAME]", true);
    check_attribute("/// [`crate::c::NAME`]", false);
    check_attribute("#[error(\"crate::c: {0}\")]", false);
    check_attribute("#[serde(with = \"::c::d\")]", false);
}

#[test]
fn modules_have_no_import_cycle() {
    let manifests: Vec<(String, Table)> = sources(&["Cargo.toml"])
        .iter()
        .filter_map(|manifest| {
            let folder = manifest.path.strip_suffix("/Cargo.toml")?;
            Some((folder.to_owned(), manifest.text.parse().unwrap()))
        })
        .collect();
    let texts: BTreeMap<&str, &str> =
        rust().iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
    let (found, compiled) = of_crates(&manifests, &texts);
    let unknown = texts.keys().filter(|path| !compiled.contains(**path));
    clean(unknown.map(|path| format!("{path} belongs to no target")).collect());
    clean(found);
}
