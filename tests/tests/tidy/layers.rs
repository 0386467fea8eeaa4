//! Checks that the folders of `nrid` import each other only downwards: a folder imports from those
//! above it in the table of `src/service/src/lib.rs`.

use crate::clean;
use crate::imports::{Edges, edges};
use crate::modules::Modules;
use crate::source::root;
use std::collections::BTreeSet;

/// The folder of the crate. Its root file has the table.
const CRATE: &str = "src/service/src/";

/// Returns the folders and files in the first column of the table, in order.
fn rows(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| Some(line.strip_prefix("//! | `")?.split_once('`')?.0)).collect()
}

/// Returns the part of a path that the table has: a folder, or a file beside the root file.
fn part(path: &str) -> &str {
    let path = path.strip_prefix(CRATE).unwrap_or(path);
    path.split('/').next().unwrap_or(path)
}

/// Returns the imports of folders below, rows without a folder, and folders without a row.
fn violations(rows: &[&str], files: &BTreeSet<&str>, edges: &Edges) -> Vec<String> {
    let parts: BTreeSet<&str> = files.iter().map(|path| part(path)).collect();
    let without_row = parts.iter().filter(|part| **part != "lib.rs" && !rows.contains(part));
    let mut found: Vec<String> = without_row.map(|part| format!("{part} has no row")).collect();
    let unknown = rows.iter().filter(|row| !parts.contains(**row));
    found.extend(unknown.map(|row| format!("{row} has a row, but does not exist")));

    let place = |path: &str| rows.iter().position(|row| *row == part(path));
    let short = |path: &str| path.strip_prefix(CRATE).unwrap_or(path).to_owned();
    for (file, imports) in edges {
        for (other, line) in imports {
            let (Some(from), Some(to)) = (place(file), place(other)) else { continue };
            if to > from {
                let (file, other) = (short(file), short(other));
                found.push(format!("{file}:{line} imports {other}, which is below it"));
            }
        }
    }
    found
}

/// Returns the violations of a crate with these files; the first is its root file.
fn of_crate(root: &str, text: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let modules = Modules::read(root, text).all;
    let files = modules.iter().map(|module| module.file.as_str()).collect();
    violations(&rows(&text(root).unwrap_or_default()), &files, &edges(&modules))
}

#[test]
fn an_import_that_runs_back_up_is_found() {
    let table = "//! | folder | what |\n//! |---|---|\n//! | `a` | x |\n//! | `b.rs` | x |\n\
                 //! | `c` | x |\n\nmod a { pub mod d; }\nmod b;\nmod c { pub mod e; }\n";
    let check = |a: &str, b: &str, c: &str, found: &[&str]| {
        let text = |path: &str| match path.strip_prefix(CRATE)? {
            "lib.rs" => Some(table.to_owned()),
            "a/d.rs" => Some(a.to_owned()),
            "b.rs" => Some(b.to_owned()),
            "c/e.rs" => Some(c.to_owned()),
            _ => None,
        };
        assert_eq!(of_crate(&format!("{CRATE}lib.rs"), &text), found);
    };
    let (a, b) = ("pub struct D;", "pub struct B(crate::a::d::D);");
    check(a, b, "use crate::{a::d::D, b::B};", &[]);
    let up = "\npub struct D(crate::c::e::E);";
    let (c, arrow) = ("pub struct E;", "a/d.rs:2 imports c/e.rs, which is below it");
    check(up, b, c, &[arrow]);
    check(
        "#[error(x = crate::b::B)]\npub struct D;",
        "pub struct B;",
        c,
        &["a/d.rs:1 imports b.rs, which is below it"],
    );

    let text = |path: &str| match path.strip_prefix(CRATE)? {
        "lib.rs" => Some("//! | `a` | x |\nmod f;".to_owned()),
        "f.rs" => Some(String::new()),
        _ => None,
    };
    let expected = ["f.rs has no row", "a has a row, but does not exist"];
    assert_eq!(of_crate(&format!("{CRATE}lib.rs"), &text), expected);
}

#[test]
fn folders_of_nrid_import_only_from_those_above() {
    let text = |path: &str| std::fs::read_to_string(root().join(path)).ok();
    clean(of_crate(&format!("{CRATE}lib.rs"), &text));
}
