//! Checks that every crate inherits lints, version and license from the workspace.

use crate::source::{Source, sources};
use crate::{check, clean};
use toml::{Table, Value};

/// Crates with a separate lint table, with the reason.
const OWN_LINTS: &[(&str, &str)] = &[
    ("integration/Cargo.toml", "it contains only tests, which may panic and print"),
    ("integration/bench/Cargo.toml", "measurements, which may panic and print"),
    ("tests/fuzz/Cargo.toml", "a workspace of its own, built with a C++ compiler"),
    ("src/wasm/guest/Cargo.toml", "a workspace of its own, built for another target"),
    ("src/plugin/template/Cargo.toml", "copied to become a crate of its own"),
];

/// Crates that are published: the SDK for plugins, that for runtimes, and what they need.
const PUBLISHED: &[&str] = &[
    "src/adaptation/Cargo.toml",
    "src/api/Cargo.toml",
    "src/merge/Cargo.toml",
    "src/mountinfo/Cargo.toml",
    "src/plugin/Cargo.toml",
    "src/runtime/Cargo.toml",
    "src/spec/Cargo.toml",
    "src/trust/Cargo.toml",
    "src/values/Cargo.toml",
    "src/wire/Cargo.toml",
];

/// Returns the settings that a manifest does not inherit from the workspace, and an exception that
/// is not needed.
fn deviating(source: &Source) -> Vec<String> {
    let manifest: Table = source.text.parse().unwrap();
    let Some(package) = manifest.get("package") else { return vec![] };
    let inherits = |value: Option<&Value>| {
        value.and_then(|v| v.get("workspace")).and_then(Value::as_bool).unwrap_or_default()
    };
    let has_own_lints = OWN_LINTS.iter().any(|(path, _)| *path == source.path);
    let mut found = Vec::new();
    if inherits(manifest.get("lints")) == has_own_lints {
        let what = if has_own_lints {
            "inherits lints, so remove it from OWN_LINTS"
        } else {
            "does not inherit lints"
        };
        found.push(format!("{}: {what}", source.path));
    }
    let keys = ["version", "edition", "rust-version", "license", "publish"];
    let is_published = PUBLISHED.contains(&source.path.as_str());
    let own_keys = keys.iter().filter(|key| match **key {
        "publish" if is_published => package.get("publish").and_then(Value::as_bool) != Some(true),
        key => !inherits(package.get(key)),
    });
    if !manifest.contains_key("workspace") {
        found.extend(own_keys.map(|key| format!("{}: does not inherit {key}", source.path)));
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
        &["a/Cargo.toml: does not inherit license"],
    );
    let own = "[lints.rust]\nunsafe_code = \"deny\"\n";
    check(
        deviating,
        "a/Cargo.toml",
        &format!("{package}{license}{own}"),
        &["a/Cargo.toml: does not inherit lints"],
    );
    check(
        deviating,
        OWN_LINTS[0].0,
        &format!("{package}{license}{lints}"),
        &["integration/Cargo.toml: inherits lints, so remove it from OWN_LINTS"],
    );
    clean(sources(&["Cargo.toml"]).iter().flat_map(deviating).collect());
}
