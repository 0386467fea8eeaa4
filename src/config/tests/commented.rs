//! `packaging/config.toml` has every key of the model, commented out at the default of the code.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{Config, commented_configuration};
use std::{collections::BTreeSet, fs, path::Path};

/// A key of the file.
#[derive(Debug)]
struct CommentedKey {
    /// Header of its table; empty before the first table.
    header: String,
    /// `key = value`
    line: String,
    /// Whether the value is an example, since the key has no fixed default.
    is_example: bool,
}

impl CommentedKey {
    fn name(&self) -> &str {
        self.line.split_once(" = ").unwrap().0
    }
}

fn file() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/config.toml");
    fs::read_to_string(path).unwrap()
}

/// Reads the headers and the keys of the file from its comments.
fn commented(text: &str) -> (BTreeSet<String>, Vec<CommentedKey>) {
    let (mut headers, mut keys) = (BTreeSet::from([String::new()]), Vec::new());
    let (mut header, mut before) = (String::new(), "");
    for line in text.lines() {
        let setting = line.strip_prefix('#').filter(|rest| !rest.is_empty());
        match setting.filter(|rest| !rest.starts_with(' ')) {
            Some(found) if found.starts_with('[') => {
                header = found.to_owned();
                assert!(headers.insert(header.clone()), "{header} is there twice");
            }
            Some(key) => {
                let is_example = before == "# For example:";
                keys.push(CommentedKey {
                    header: header.clone(),
                    line: key.to_owned(),
                    is_example,
                });
            }
            None => before = line,
        }
    }
    (headers, keys)
}

/// Returns a file with one table: its required key, unless `line` sets it, then `line`.
fn table(header: &str, line: &str) -> String {
    let required = match header {
        "[[plugin]]" => "match = '*'",
        "[runtime.names.NAME]" => "path = '/p'",
        _ => "",
    };
    let is_set = line.split(" = ").next() == required.split(" = ").next();
    format!("{header}\n{}\n{line}\n", if is_set { "" } else { required })
}

fn parse(text: &str) -> Config {
    Config::parse(text).unwrap_or_else(|e| panic!("{text}: {}", e.message))
}

#[test]
fn the_file_is_generated_from_the_code() {
    assert!(
        file() == commented_configuration(),
        "outdated: run `cargo run -p nri-config --example commented_configuration > \
         packaging/config.toml`"
    );
    let text = file();
    let long = text.lines().filter(|line| line.chars().count() > 100);
    assert_eq!(long.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_file_changes_nothing() {
    assert!(file().lines().all(|line| line.is_empty() || line.starts_with('#')));
    assert_eq!(parse(&file()), Config::default());
}

#[test]
fn every_key_of_the_model_is_in_the_file() {
    let (headers, keys) = commented(&file());
    for header in &headers {
        let mut found: BTreeSet<&str> = BTreeSet::new();
        for key in keys.iter().filter(|key| key.header == *header) {
            assert!(found.insert(key.name()), "{header} {} is there twice", key.name());
        }
        // Nested tables are keys of the table around them.
        let outer = header.trim_matches(['[', ']']);
        for other in headers.iter().filter(|other| *other != header) {
            let name = other.trim_matches(['[', ']']);
            let nested = if outer.is_empty() {
                Some(name)
            } else {
                name.strip_prefix(outer).and_then(|name| name.strip_prefix('.'))
            };
            found.extend(nested.and_then(|name| name.split('.').next()).filter(|n| !n.is_empty()));
        }
        // An error of serde about an unknown key lists the keys of the model.
        let text = table(header, "no-such-key = 1");
        let error = toml::from_str::<Config>(&text).unwrap_err();
        let (_, names) = error.message().split_once("expected ").unwrap();
        let expected: BTreeSet<String> =
            names.split('`').skip(1).step_by(2).map(|name| name.replace('-', "_")).collect();
        assert_eq!(found.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>(), expected);
    }
}

#[test]
fn each_commented_default_is_that_of_the_code() {
    let (_, keys) = commented(&file());
    for CommentedKey { header, line, is_example } in &keys {
        let (with, without) = (parse(&table(header, line)), parse(&table(header, "")));
        match is_example {
            false => assert_eq!(with, without, "{header} {line} is not the default"),
            true => assert_ne!(with, without, "{header} {line} is a default"),
        }
    }
    // All defaults at once, in the order of the file.
    let (mut text, mut table) = (String::new(), String::new());
    for key in keys.iter().filter(|key| !key.is_example) {
        if matches!(&*key.header, "[[plugin]]" | "[runtime.names.NAME]") {
            continue;
        }
        if key.header != table {
            table.clone_from(&key.header);
            text.push_str(&format!("{table}\n"));
        }
        text.push_str(&format!("{}\n", key.line));
    }
    assert_eq!(parse(&text), Config::default());
}
