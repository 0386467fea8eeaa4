//! `packaging/config.toml` is generated, and changes nothing.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{Config, commented_configuration};
use std::{fs, path::Path};

#[test]
fn the_file_is_generated_from_the_code_and_changes_nothing() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/config.toml");
    let text = fs::read_to_string(path).unwrap();
    assert!(
        text == commented_configuration(),
        "outdated: run `cargo run -p nri-config --example commented_configuration > \
         packaging/config.toml`"
    );
    let long = text.lines().filter(|line| line.chars().count() > 100);
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with('#')));
    assert_eq!(Config::parse(&text), Ok(Config::default()));
}
