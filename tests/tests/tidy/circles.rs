//! Checks that modules have no import cycles: in each crate, the imports of the files form a DAG.
//!
//! A file depends on the files that define the items it names, in `use` or with a path; re-exports
//! are followed to the definition. Declaring a child module is no dependency; naming an item that a
//! parent only re-exports is no dependency on the parent. A parent and a child that name each
//! other's items form a cycle; move the shared items to a file below both.
//!
//! `cargo test -p nri-tests --test tidy circle -- --nocapture` prints the circles of exceptions.

use crate::clean;
use crate::modules::{Module, Modules};
use crate::source::{rust, sources};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use toml::{Table, Value};

/// Crates that still have cycles. A crate without cycles must not be listed.
const EXCEPTIONS: &[&str] = &[];

/// Limit of printed cycles per target.
const PRINTED: usize = 12;

/// Dependencies: file, file that it names, line of the name.
type Edges = BTreeMap<String, BTreeMap<String, usize>>;

/// Resolution of a name in a module.
#[derive(Clone, Copy)]
enum Name {
    Module(usize),
    /// Defined in this module.
    Item(usize),
    /// Imported from another crate.
    Foreign,
}

/// Finds definitions. Each name of each module is resolved once, since glob imports may be cyclic.
struct Names<'a> {
    modules: &'a [Module],
    known: BTreeMap<(usize, &'a str), Option<Name>>,
}

impl<'a> Names<'a> {
    /// Resolves a path in a module; returns the module that defines the item, `None` outside the
    /// crate.
    fn definition(&mut self, from: usize, path: &'a [String]) -> Option<usize> {
        let (mut at, mut rest) = (from, path);
        while let Some((first, others)) = rest.split_first() {
            at = match first.as_str() {
                "crate" => 0,
                "self" => at,
                "super" => self.modules[at].parent?,
                _ => break,
            };
            rest = others;
        }
        let mut inside = rest.len() < path.len();
        for name in rest {
            match self.lookup(at, name) {
                Some(Name::Module(module)) => at = module,
                Some(Name::Item(module)) => return Some(module),
                Some(Name::Foreign) => return None,
                // A macro defines the item.
                None if inside => return Some(at),
                None => return None,
            }
            inside = true;
        }
        Some(at)
    }

    fn lookup(&mut self, module: usize, name: &'a str) -> Option<Name> {
        if let Some(known) = self.known.get(&(module, name)) {
            return *known;
        }
        self.known.insert((module, name), None); // of a circle of globs
        let here = &self.modules[module];
        let found = if let Some(child) = here.children.get(name) {
            Some(Name::Module(*child))
        } else if here.items.contains(name) {
            Some(Name::Item(module))
        } else if let Some(path) = here.imports.get(name) {
            Some(self.imported(module, path, name).unwrap_or(Name::Foreign))
        } else {
            here.globs.iter().find_map(|glob| {
                let from = self.definition(module, glob)?;
                if from == module { None } else { self.lookup(from, name) }
            })
        };
        self.known.insert((module, name), found);
        found
    }

    /// Resolves an import of a module.
    fn imported(&mut self, module: usize, path: &'a [String], name: &str) -> Option<Name> {
        let (last, before) = path.split_last()?;
        if matches!(last.as_str(), "crate" | "self" | "super") {
            return Some(Name::Module(self.definition(module, path)?));
        }
        if before.is_empty() && last == name {
            return None; // `use serde;`
        }
        let from = if before.is_empty() { module } else { self.definition(module, before)? };
        self.lookup(from, last)
    }
}

/// Returns the dependencies between the files of a target.
fn edges(modules: &[Module]) -> Edges {
    let mut names = Names { modules, known: BTreeMap::new() };
    let mut edges = Edges::new();
    for (number, module) in modules.iter().enumerate() {
        for (path, line) in &module.paths {
            let Some(definition) = names.definition(number, path) else { continue };
            let needed = &modules[definition].file;
            if *needed != module.file {
                let lines = edges.entry(module.file.clone()).or_default();
                lines.entry(needed.clone()).or_insert(*line);
            }
        }
    }
    edges
}

/// Returns the files of the shortest cycle, if there is a cycle.
fn shortest(edges: &Edges) -> Option<Vec<String>> {
    let circles = edges.keys().filter_map(|start| {
        let mut before: BTreeMap<&str, &str> = BTreeMap::new();
        let mut next = VecDeque::from([start.as_str()]);
        while let Some(file) = next.pop_front() {
            for needed in edges.get(file).into_iter().flat_map(BTreeMap::keys) {
                if needed == start {
                    let mut circle = vec![start.clone()];
                    let mut at = file;
                    while at != start {
                        circle.insert(1, at.to_owned());
                        at = before[at];
                    }
                    return Some(circle);
                }
                if !before.contains_key(needed.as_str()) {
                    before.insert(needed, file);
                    next.push_back(needed);
                }
            }
        }
        None
    });
    circles.min_by_key(Vec::len)
}

/// Returns the cycles of a target, shortest first, as `a.rs:3 -> b.rs:5 -> a.rs`. The search for
/// the next cycle ignores the last import of each cycle found.
fn circles(mut edges: Edges) -> Vec<String> {
    let mut found = vec![];
    while let Some(circle) = shortest(&edges) {
        if found.len() == PRINTED {
            found.push("… and more".to_owned());
            break;
        }
        let needed = circle.iter().cycle().skip(1);
        let steps: Vec<String> = circle
            .iter()
            .zip(needed)
            .map(|(file, needed)| format!("{file}:{}", edges[file][needed]))
            .collect();
        found.push(format!("{} -> {}", steps.join(" -> "), circle[0]));
        let last = &circle[circle.len() - 1];
        edges.get_mut(last).unwrap().remove(&circle[0]);
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
    for kind in ["bin", "test", "example", "bench"] {
        let targets = manifest.get(kind).and_then(Value::as_array).into_iter().flatten();
        let paths = targets.filter_map(|target| target.get("path")?.as_str());
        found.extend(paths.map(|path| format!("{folder}/{path}")));
    }
    found
}

/// Returns the cycles of each crate, by folder, and the files of its targets.
fn of_crates(
    manifests: &[(String, Table)],
    texts: &BTreeMap<&str, &str>,
) -> (BTreeMap<String, Vec<String>>, BTreeSet<String>) {
    let (mut found, mut compiled) = (BTreeMap::new(), BTreeSet::new());
    let files = texts.keys().copied().collect();
    for (folder, manifest) in manifests {
        let mut circles_here = vec![];
        for root in roots(folder, manifest, &files) {
            let modules =
                Modules::read(&root, &|path| texts.get(path).map(|text| (*text).to_owned()));
            circles_here.extend(circles(edges(&modules.all)));
            compiled.extend(modules.all.into_iter().map(|module| module.file));
        }
        found.insert(folder.clone(), circles_here);
    }
    (found, compiled)
}

/// Returns cycles outside the exceptions, and exceptions without a cycle.
fn wrong(found: &BTreeMap<String, Vec<String>>, exceptions: &[&str]) -> Vec<String> {
    let mut wrong = vec![];
    for (folder, circles) in found {
        match (exceptions.contains(&folder.as_str()), circles.is_empty()) {
            (false, false) => wrong.extend(circles.iter().cloned()),
            (true, true) => {
                wrong.push(format!("{folder} has no circle any more: remove it from EXCEPTIONS"));
            }
            _ => {}
        }
    }
    let unknown = exceptions.iter().filter(|folder| !found.contains_key(**folder));
    wrong.extend(unknown.map(|folder| format!("{folder} is an exception and no crate")));
    wrong
}

/// Applies the rule to one crate, `a`, with these files.
#[track_caller]
fn check(files: &[(&str, &str)], exceptions: &[&str], expected: &[&str]) {
    let texts: Vec<(String, &str)> =
        files.iter().map(|(path, text)| (format!("a/src/{path}"), *text)).collect();
    let texts = texts.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let (found, _) = of_crates(&[("a".to_owned(), Table::new())], &texts);
    let found = wrong(&found, exceptions);
    let short: Vec<String> = found.iter().map(|line| line.replace("a/src/", "")).collect();
    assert_eq!(short, expected);
}

#[test]
fn a_circle_of_modules_is_found_and_printed() {
    let lib = ("lib.rs", "mod b;\nmod c;");
    let (b, c) = ("pub struct B;\nuse crate::c::C;", "use super::b;\npub struct C(b::B);");
    check(&[lib, ("b.rs", b), ("c.rs", c)], &[], &["b.rs:2 -> c.rs:1 -> b.rs"]);
    check(&[lib, ("b.rs", "pub struct B;"), ("c.rs", c)], &[], &[]);
    check(&[lib, ("b.rs", b), ("c.rs", "pub struct C;")], &[], &[]);

    let three = ("lib.rs", "mod b;\nmod c;\nmod d;");
    let d = ("d.rs", "pub fn d() -> crate::b::B { crate::b::B }");
    let through = ("c.rs", "pub struct C;\nfn c() { format!(\"{}\", crate::d::d()) }");
    let expected = "b.rs:2 -> c.rs:2 -> d.rs:1 -> b.rs";
    check(&[three, ("b.rs", b), through, d], &[], &[expected]);
    check(&[three, ("b.rs", b), through, ("d.rs", "pub fn d() {}")], &[], &[]);
}

#[test]
fn a_child_and_its_parent_are_a_circle_if_each_needs_the_other() {
    let parent = ("lib.rs", "mod b;\nuse b::B;\npub struct A(B);");
    check(&[parent, ("b.rs", "pub struct B(crate::A);")], &[], &["b.rs:1 -> lib.rs:2 -> b.rs"]);
    check(&[("lib.rs", "mod b;\npub struct A;"), ("b.rs", "use super::A;")], &[], &[]);
    // An item that the parent only re-exports is no dependency on the parent.
    let facade = ("lib.rs", "mod b;\nmod c;\npub use b::B;\npub use c::*;");
    check(&[facade, ("b.rs", "pub struct B;"), ("c.rs", "pub struct C(crate::B);")], &[], &[]);
    let circle = [facade, ("b.rs", "pub struct B(crate::C);"), ("c.rs", "pub struct C(crate::B);")];
    check(&circle, &[], &["b.rs:1 -> c.rs:1 -> b.rs"]);
    // Tests in the file itself, and tests in a separate file.
    check(&[("lib.rs", "pub fn f() {}\nmod t { use super::*; use super::f; }")], &[], &[]);
    check(&[("lib.rs", "pub fn f() {}\nmod t;"), ("t.rs", "use super::*;")], &[], &[]);
    check(
        &[("lib.rs", "use t::g;\npub fn f() {}\nmod t;"), ("t.rs", "use super::*;\npub fn g() {}")],
        &[],
        &["lib.rs:1 -> t.rs:1 -> lib.rs"],
    );
}

#[test]
fn modules_are_found_where_rustc_finds_them() {
    let circle = "b/c/d.rs:1 -> b/mod.rs:1 -> b/c/d.rs";
    check(
        &[
            ("lib.rs", "mod b;"),
            ("b/mod.rs", "pub use c::d::D as E;\nmod c { pub mod d; }\npub struct B;"),
            ("b/c/d.rs", "pub struct D(pub(in crate::b) super::super::B);"),
        ],
        &[],
        &[circle],
    );
    check(
        &[
            ("lib.rs", "#[path = \"x/y.rs\"]\nmod b;\nuse b::f;\npub fn a() {}"),
            ("x/y.rs", "mod z;\npub fn f() { z::g() }"),
            ("x/z.rs", "#[derive(S)]\npub struct T {\n#[serde(default = \"crate::a\")]\na: u8 }"),
        ],
        &[],
        &["lib.rs:3 -> x/y.rs:2 -> x/z.rs:3 -> lib.rs"],
    );
    check(
        &[
            ("lib.rs", "mod b;\nuse b::T;\npub fn a() {}"),
            ("b.rs", "pub struct T {\n#[serde(default = \"crate::a\")]\na: u8 }"),
        ],
        &[],
        &["b.rs:2 -> lib.rs:2 -> b.rs"],
    );
    check(
        &[
            ("lib.rs", "mod b;\npub use other as o;\nuse b::f;"),
            ("b.rs", "pub fn f() { crate::o::x() }"),
        ],
        &[],
        &[],
    );
    check(&[("lib.rs", "use serde::a;\nuse std::fmt;\nfn f() { fmt::x(); serde::y() }")], &[], &[]);
}

#[test]
fn an_exception_that_is_not_needed_is_an_error() {
    let circle =
        [("lib.rs", "mod b;\nuse b::B;\npub struct A;"), ("b.rs", "use super::A;\npub struct B;")];
    check(&circle, &["a"], &[]);
    check(&circle[..1], &["a"], &["a has no circle any more: remove it from EXCEPTIONS"]);
    check(&circle, &["a", "z"], &["z is an exception and no crate"]);
}

#[test]
fn there_is_no_circle_of_modules() {
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
    for (folder, circles) in found.iter().filter(|(_, circles)| !circles.is_empty()) {
        println!("{folder}:\n  {}", circles.join("\n  "));
    }
    let unknown = texts.keys().filter(|path| !compiled.contains(**path));
    clean(unknown.map(|path| format!("{path}: part of no target")).collect());
    clean(wrong(&found, EXCEPTIONS));
}
