//! Checks that crates depend on each other only as `src/ARCHITECTURE.md` allows, and that the small
//! programs link no large library.

use crate::clean;
use crate::source::{root, sources};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// Dependencies by the name of the crate.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// Crates outside the product, with the reason why they may use any crate.
const FREE: &[(&str, &str)] = &[
    ("nri-tests", "tests across crates"),
    ("nri-integration", "tests on real runtimes"),
    ("nri-bench", "measurements"),
    ("nri-conformance", "tests of any runtime"),
    ("nri-fuzz", "fuzz targets"),
    ("{{project-name}}", "the template of plugins"),
    ("nri-wasm-guest", "an example plugin, of another target"),
];

/// Libraries that a program must not link, even indirectly.
const NEVER: &[(&str, &[&str])] = &[
    ("nri-container-runtime", &["tokio", "ttrpc", "protobuf", "nri-merge", "nri-spec"]),
    ("nri-oci-hook", &["tokio", "ttrpc", "protobuf", "nri-merge", "nri-spec"]),
    ("nrid", &["wasmi"]),
    ("nri-merge", &["nri-spec", "tokio"]),
    ("nri-spec", &["nri-merge", "tokio"]),
];

/// Returns the allowed dependencies by crate, from the tables of programs and crates, in which a
/// crate may have several rows. The row of a program that links `everything else` is ignored: the
/// row of its crate applies.
fn allowed(architecture: &str) -> Edges {
    let rows: Vec<(&str, Vec<String>)> = architecture
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.strip_prefix("| `")?.split('|').map(str::trim).collect();
            let name = cells.first()?.trim_end_matches('`');
            let uses = cells.get(3)?.replace('`', "");
            Some((
                name,
                uses.split(',')
                    .map(|word| word.trim().to_owned())
                    .filter(|w| !w.is_empty())
                    .collect(),
            ))
        })
        .collect();
    let full = |short: &str| {
        if short.starts_with("nri") { short.to_owned() } else { format!("nri-{short}") }
    };
    let all: BTreeSet<String> = rows.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut found = Edges::new();
    for (name, uses) in rows {
        let uses: BTreeSet<String> = match uses.first().map(String::as_str) {
            Some("everything else") => continue,
            Some(first) if first.starts_with("all but ") => {
                let excluded = |short: &String| full(short.trim_start_matches("all but "));
                let excluded: BTreeSet<String> = uses.iter().map(excluded).collect();
                let is_used = |other: &&String| !excluded.contains(*other) && **other != name;
                all.iter().filter(is_used).cloned().collect()
            }
            _ => uses.iter().map(|short| full(short)).collect(),
        };
        found.entry(name.to_owned()).or_default().extend(uses);
    }
    found
}

/// Returns all dependencies of a manifest, with renamed crates under their original names.
fn used(manifest: &Table) -> BTreeSet<String> {
    fn collect(tables: &Table, found: &mut BTreeSet<String>) {
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for (name, how) in tables.get(kind).and_then(Value::as_table).into_iter().flatten() {
                let renamed = how.get("package").and_then(Value::as_str);
                found.insert(renamed.unwrap_or(name).to_owned());
            }
        }
        for platform in tables.get("target").and_then(Value::as_table).into_iter().flatten() {
            platform.1.as_table().into_iter().for_each(|tables| collect(tables, found));
        }
    }
    let mut found = BTreeSet::new();
    collect(manifest, &mut found);
    found
}

/// Returns dependencies between crates of the workspace that the tables lack.
fn unlisted(allowed: &Edges, manifests: &[Table]) -> Vec<String> {
    let name = |manifest: &Table| Some(manifest.get("package")?.get("name")?.as_str()?.to_owned());
    let ours: BTreeSet<String> = manifests.iter().filter_map(name).collect();
    let mut found = Vec::new();
    for manifest in manifests {
        let Some(name) = name(manifest).filter(|name| !FREE.iter().any(|(free, _)| free == name))
        else {
            continue;
        };
        let Some(allowed_uses) = allowed.get(&name) else {
            found.push(format!("{name} has no row in src/ARCHITECTURE.md"));
            continue;
        };
        let uses: BTreeSet<String> = used(manifest).intersection(&ours).cloned().collect();
        // A crate's tests may depend on the crate itself, with more features.
        let others = uses.difference(allowed_uses).filter(|other| **other != name);
        found.extend(others.map(|other| format!("{name} uses {other}")));
    }
    let missing = allowed.keys().filter(|name| !ours.contains(*name));
    found.extend(missing.map(|name| format!("{name} has a row, but no such crate exists")));
    found
}

/// Returns forbidden libraries that a program links. `Cargo.lock` includes dependencies of tests,
/// so the check is stricter than necessary.
fn linked(lock: &Table) -> Vec<String> {
    let mut edges = Edges::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let name = package.get("name").and_then(Value::as_str).unwrap_or_default();
        let uses = package.get("dependencies").and_then(Value::as_array).into_iter().flatten();
        let uses = uses.filter_map(|other| other.as_str()?.split(' ').next()); // without version
        edges.entry(name.to_owned()).or_default().extend(uses.map(str::to_owned));
    }
    let mut found = Vec::new();
    for (name, never) in NEVER {
        let (mut reached, mut queue) = (BTreeSet::new(), vec![(*name).to_owned()]);
        while let Some(package) = queue.pop() {
            if reached.insert(package.clone()) {
                queue.extend(edges.get(&package).into_iter().flatten().cloned());
            }
        }
        if !edges.contains_key(*name) {
            found.push(format!("{name} is not in Cargo.lock"));
        }
        found.extend(
            never.iter().filter(|n| reached.contains(**n)).map(|n| format!("{name} links {n}")),
        );
    }
    found
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

#[test]
fn crates_use_each_other_as_the_architecture_says() {
    let tables = "| program | folder | lives | links |\n|---|---|---|---|\n\
                  | `nri-p` | `p` | x | `nri-a`, `nri-b` |\n\
                  | `nrid` | `d` | x | everything else |\n\n\
                  | crate | folder | what | uses | I/O |\n| `nri-a` | `a` | x | | none |\n\
                  | `nri-b` | `b` | x | | none |\n| `nri-b` | | y | a | none |\n\
                  | `nri-c` | `c` | x | | none |\n\
                  | `nrid` | `d` | x | all but b, c | yes |\n";
    let known = allowed(tables);
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(known["nri-p"], set(&["nri-a", "nri-b"]));
    assert_eq!((&known["nri-a"], &known["nri-b"]), (&set(&[]), &set(&["nri-a"])));
    assert_eq!(known["nrid"], set(&["nri-a", "nri-p"]));
    let check = |a: &str, b: &str, expected: &[&str]| {
        let manifest = |name: &str, rest: &str| {
            format!("[package]\nname = \"{name}\"\n{rest}").parse::<Table>().unwrap()
        };
        let rest = ["nri-c", "nri-p", "nrid", "nri-tests"].map(|name| manifest(name, ""));
        let all: Vec<Table> =
            [manifest("nri-a", a), manifest("nri-b", b)].into_iter().chain(rest).collect();
        assert_eq!(unlisted(&known, &all), expected);
    };
    check("", "[dependencies]\nnri-a.workspace = true\nserde = \"1\"", &[]);
    check("[dependencies]\nnri-b.workspace = true", "", &["nri-a uses nri-b"]);
    check("[dev-dependencies]\nother = { package = \"nri-b\" }", "", &["nri-a uses nri-b"]);
    check("[target.'cfg(unix)'.dependencies]\nnrid = {}", "", &["nri-a uses nrid"]);
    let tests = "[package]\nname = \"nri-d\"".parse::<Table>().unwrap();
    let missing = [
        "nri-d has no row in src/ARCHITECTURE.md",
        "nri-a has a row, but no such crate exists",
        "nri-b has a row, but no such crate exists",
    ];
    assert_eq!(unlisted(&known, &[tests])[..3], missing);

    let manifests: Vec<Table> =
        sources(&["Cargo.toml"]).iter().map(|source| source.text.parse().unwrap()).collect();
    let known = allowed(&read("src/ARCHITECTURE.md"));
    // The tables have more rows; fewer than 13 would mean that a table was not parsed.
    assert!(known.len() >= 13, "rows of the tables were not parsed: {known:?}");
    assert!(!known["nri-merge"].contains("nri-spec") && !known["nri-spec"].contains("nri-merge"));
    clean(unlisted(&known, &manifests));
}

#[test]
fn the_small_programs_link_no_large_library() {
    let package = |name: &str, uses: &str| {
        format!("[[package]]\nname = \"{name}\"\ndependencies = [{uses}]\n")
    };
    let all = NEVER.iter().map(|(name, _)| package(name, "\"nri-control\"")).collect::<String>();
    let lock = |uses: &str| {
        format!("{all}{}{}", package("nri-control", uses), package("a", "\"tokio 1.2.3\""))
            .parse()
            .unwrap()
    };
    assert_eq!(linked(&lock("\"libc\"")), [""; 0]);
    assert_eq!(
        linked(&lock("\"a 1.0.0\""))[..2],
        ["nri-container-runtime links tokio", "nri-oci-hook links tokio"]
    );
    assert_eq!(linked(&Table::new()).len(), NEVER.len());

    clean(linked(&read("Cargo.lock").parse().unwrap()));
}
