//! Test that the earlier and the current release accept and refuse the same configuration files.

use super::releases;
use std::{fs, path::Path, process::Command};

/// Returns a configuration file with every key of a release, each of which its commented file has
/// with a value.
fn all_keys(source: &Path) -> String {
    let text = fs::read_to_string(source.join("packaging/config.toml")).unwrap();
    let settings = text.lines().filter_map(|line| line.strip_prefix('#'));
    let settings = settings.filter(|line| !line.is_empty() && !line.starts_with(' '));
    settings.flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn a_configuration_with_every_key_is_accepted_by_both_releases() {
    let Some(releases) = releases("configuration of both releases") else { return };
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("config.toml");
    let all_keys = all_keys(&releases[0].source);
    for (text, is_valid) in [(&*all_keys, true), ("unknown_key = 1\n", false)] {
        fs::write(&file, text).unwrap();
        for release in &releases {
            let mut check = Command::new(release.dir.join("nrid"));
            let output = check.args(["--check", "--config"]).arg(&file).output().unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.success(), is_valid, "{} release: {err}", release.name);
        }
    }
}
