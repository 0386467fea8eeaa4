//! Checks that every crate inherits lints, version and license from the workspace.

use crate::source::{Source, sources};
use crate::{check, clean};
use toml::{Table, Value};

/// Crates with a separate lint table, with the reason.
const OWN_LINTS: &[(&str, &str)] = &[
    (
        "integration/Cargo.toml",
        "everything in it is a test, which fails by panicking and speaks to people",
    ),
    ("tests/fuzz/Cargo.toml", "a workspace of its own, built with a C++ compiler"),
];

fn deviating(source: &Source) -> Vec<String> {
    let manifest: Table = source.text.parse().unwrap();
    let Some(package) = manifest.get("package") else { return vec![] };
    let inherits = |value: Option<&Value>| {
        value.and_then(|v| v.get("workspace")).and_then(Value::as_bool).unwrap_or_default()
    };
    let own = OWN_LINTS.iter().any(|(path, _)| *path == source.path);
    let mut found = Vec::new();
    if inherits(manifest.get("lints")) == own {
        let what =
            if own { "needs no lints of its own" } else { "does not take the workspace's lints" };
        found.push(format!("{}: {what}", source.path));
    }
    let keys = ["version", "edition", "rust-version", "license", "publish"];
    let alone = keys.iter().filter(|key| !inherits(package.get(**key)));
    if !manifest.contains_key("workspace") {
        found.extend(alone.map(|key| format!("{}: {key} is not the workspace's", source.path)));
    }
    found
}

#[test]
fn crates_inherit_lints_version_and_license() {
    let package = "[package]\nversion.workspace = true\nedition.workspace = true\n\
                   rust-version.workspace = true\npublish.workspace = true\n";
    let lints = "[lints]\nworkspace = true\n";
    let license = "license.workspace = true\n";
    check(deviating, "a/Cargo.toml", &format!("{package}{license}{lints}"), &[]);
    check(
        deviating,
        "a/Cargo.toml",
        &format!("{package}license = \"MIT\"\n{lints}"),
        &["a/Cargo.toml: license is not the workspace's"],
    );
    let own = "[lints.rust]\nunsafe_code = \"deny\"\n";
    check(
        deviating,
        "a/Cargo.toml",
        &format!("{package}{license}{own}"),
        &["a/Cargo.toml: does not take the workspace's lints"],
    );
    check(
        deviating,
        OWN_LINTS[0].0,
        &format!("{package}{license}{lints}"),
        &["integration/Cargo.toml: needs no lints of its own"],
    );
    clean(sources(&["Cargo.toml"]).iter().flat_map(deviating).collect());
}
