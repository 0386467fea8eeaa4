//! Checks the layout: the folder map in `src/ARCHITECTURE.md` lists every folder of the programs,
//! folders have few files, and lines have at most 100 columns.

use crate::source::{Source, root, rust, sources};
use crate::{check, clean};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of columns of a line.
const MAX_COLUMNS: usize = 100;

/// Maximum number of files of a folder. A folder with more files should be split into subfolders.
const MAX_FILES: usize = 25;

/// Folders that may have more files, with the reason.
const LARGE: &[(&str, &str)] = &[];

/// Paths of files that may have wider lines, with the reason.
const WIDE: &[(&str, &str)] =
    &[("/generated/", "generated"), ("integration/bench/results/", "written by `make bench`")];

/// Returns the module folders below the sources of the programs.
fn folders<'a>(paths: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths {
        let parts: Vec<&str> = path.split('/').collect();
        let depth = match parts[..] {
            ["src", _, "src", ..] => 3,
            ["shim" | "hooks", "src", ..] => 2,
            _ => continue,
        };
        found.extend((depth + 1..parts.len()).map(|end| parts[..end].join("/")));
    }
    found
}

/// Returns the folders in the table of the section "Folder map".
fn mapped(architecture: &str) -> Vec<String> {
    let map = architecture.split("\n## ").find(|section| section.starts_with("Folder map"));
    let rows = map.unwrap_or_default().lines();
    let names = rows.filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    names.map(|(name, _)| name.trim_end_matches('/').to_owned()).collect()
}

/// Returns folders without a row, and rows without a folder.
fn differences(folders: &BTreeSet<String>, rows: &[String]) -> Vec<String> {
    let mapped: BTreeSet<String> = rows.iter().cloned().collect();
    let missing =
        folders.difference(&mapped).map(|folder| format!("{folder} is not in the folder map"));
    let unknown = mapped
        .difference(folders)
        .map(|row| format!("{row} is in the folder map, but has no sources"));
    let mut found: Vec<String> = missing.chain(unknown).collect();
    if rows.len() != mapped.len() {
        found.push("the folder map lists a folder twice".to_owned());
    }
    found
}

/// Returns folders with too many files, and exceptions that are no longer needed.
fn crowded(paths: &[&str], large: &[(&str, &str)]) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (folder, _) in paths.iter().filter_map(|path| path.rsplit_once('/')) {
        *counts.entry(folder).or_default() += 1;
    }
    let is_listed = |folder: &str| large.iter().any(|(name, _)| *name == folder);
    let many: BTreeMap<&str, usize> =
        counts.into_iter().filter(|(_, count)| *count > MAX_FILES).collect();
    let mut found: Vec<String> = many
        .iter()
        .filter(|(folder, _)| !is_listed(folder))
        .map(|(folder, count)| format!("{folder} has {count} files, too many"))
        .collect();
    let small = large.iter().filter(|(folder, _)| !many.contains_key(folder));
    found.extend(small.map(|(folder, _)| format!("{folder} needs no exception")));
    found
}

/// Returns the lines that are too wide. A tab counts as 8 columns; lines with a URL are exempt.
fn wide(source: &Source) -> Vec<String> {
    if WIDE.iter().any(|(part, _)| source.path.contains(part)) {
        return vec![];
    }
    let lines = source.text.lines().enumerate();
    let columns = |line: &str| line.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum::<usize>();
    lines
        .map(|(number, line)| (number + 1, line, columns(line)))
        .filter(|(_, line, columns)| *columns > MAX_COLUMNS && !line.contains("://"))
        .map(|(number, _, columns)| format!("{}:{number}: {columns} columns", source.path))
        .collect()
}

#[test]
fn the_folder_map_and_the_tree_agree() {
    let text = "# A\n\n## Folder map\n\n| folder | what |\n|---|---|\n| `src/a/src/b` | x |\n\
                | `shim/src/c/` | x |\n\n## Other\n\n| `src/d` | x |\n";
    let check = |paths: &[&str], expected: &[&str]| {
        let found = differences(&folders(paths.iter().copied()), &mapped(text));
        assert_eq!(found, expected, "{paths:?}");
    };
    check(&["src/a/src/lib.rs", "src/a/src/b/e.rs", "shim/src/c/f.rs", "src/a/tests/g/h.rs"], &[]);
    check(&["src/a/src/b/e.rs"], &["shim/src/c is in the folder map, but has no sources"]);
    let deep = ["src/a/src/b/e.rs", "shim/src/c/f.rs", "src/a/src/i/j/k.rs"];
    check(
        &deep,
        &["src/a/src/i is not in the folder map", "src/a/src/i/j is not in the folder map"],
    );
    assert_eq!(mapped("## Crates\n| `src/a` | x |"), [""; 0]);
    let twice = ["src/a/src/b".to_owned(), "src/a/src/b".to_owned()];
    let found = differences(&folders(["src/a/src/b/e.rs"].into_iter()), &twice);
    assert_eq!(found, ["the folder map lists a folder twice"]);

    let architecture = std::fs::read_to_string(root().join("src/ARCHITECTURE.md")).unwrap();
    let tree = folders(rust().iter().map(|source| source.path.as_str()));
    clean(differences(&tree, &mapped(&architecture)));
}

#[test]
fn folders_have_few_files() {
    let paths = |count: usize| (0..count).map(|n| format!("a/b/{n}.rs")).collect::<Vec<_>>();
    let check = |count: usize, large: &[(&str, &str)], expected: &[&str]| {
        let paths = paths(count);
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        assert_eq!(crowded(&paths, large), expected);
    };
    check(MAX_FILES, &[], &[]);
    check(MAX_FILES + 1, &[], &["a/b has 26 files, too many"]);
    check(MAX_FILES + 1, &[("a/b", "why")], &[]);
    check(MAX_FILES, &[("a/b", "why")], &["a/b needs no exception"]);

    let paths: Vec<&str> = rust().iter().map(|source| source.path.as_str()).collect();
    clean(crowded(&paths, LARGE));
}

#[test]
fn lines_have_at_most_100_columns() {
    let (fits, long) = ("x".repeat(MAX_COLUMNS), "x".repeat(MAX_COLUMNS + 1));
    check(wide, "a.sh", &fits, &[]);
    check(wide, "a.sh", &format!("\n{long}"), &["a.sh:2: 101 columns"]);
    check(wide, "Makefile", &format!("\t{fits}"), &["Makefile:1: 108 columns"]);
    check(wide, "a.md", &format!("[a](https://{long})"), &[]);
    check(wide, "a/generated/b.rs", &long, &[]);
    check(wide, "a.md", &"ä".repeat(MAX_COLUMNS), &[]);

    let all = sources(&["Makefile", ".toml", ".md"]);
    // rustfmt wraps neither comments nor strings nor attributes. A raw string cannot be wrapped.
    let without_raw_strings = |source: &Source| {
        let has_raw_string = |line: &str| line.contains("r#\"");
        let lines: Vec<&str> =
            source.text.lines().map(|line| if has_raw_string(line) { "" } else { line }).collect();
        wide(&Source::new(&source.path, &lines.join("\n")))
    };
    check(without_raw_strings, "a.rs", &format!("f(r#\"{long}\"#)"), &[]);
    check(without_raw_strings, "a.rs", &format!("// {long}"), &["a.rs:1: 104 columns"]);
    clean(all.iter().flat_map(wide).chain(rust().iter().flat_map(without_raw_strings)).collect());
}
