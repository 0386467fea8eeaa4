//! The reference describes every key of the model, and nothing else.

// The lints do not recognise helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{
    Config, DefaultValue, KeyDescription, KeyKind, PluginPolicy, SectionDescription, sections,
};
use std::collections::BTreeSet;

/// Returns a file with these lines in a section.
fn file(section: &SectionDescription, lines: &str) -> String {
    let header = section.header;
    let required = section.keys.iter().filter(|key| matches!(key.default, DefaultValue::Required));
    let required = required.filter(|key| !lines.starts_with(&format!("{} =", key.name)));
    let required: String =
        required.map(|key| format!("{} = {}\n", key.name, key.example)).collect();
    format!("{header}\n{required}{lines}\n")
}

fn line(key: &KeyDescription, value: &str) -> String {
    format!("{} = {value}", key.name)
}

/// Returns the keys that the model accepts in a section, from its error about an unknown key.
fn accepted(section: &SectionDescription) -> BTreeSet<String> {
    let complaint = Config::parse(&file(section, "no-such-key = 1")).unwrap_err().message;
    let (_, names) = complaint.split_once("expected ").expect(&complaint);
    names.split('`').skip(1).step_by(2).map(|name| name.replace('-', "_")).collect()
}

#[test]
fn every_key_of_the_model_is_described() {
    for section in sections() {
        let mut described: BTreeSet<String> =
            section.keys.iter().map(|key| key.name.to_owned()).collect();
        assert_eq!(described.len(), section.keys.len(), "{}", section.header);
        let inner = sections().into_iter().filter(|inner| inner.header != section.header);
        let outer = section.header.trim_matches(['[', ']']);
        for inner in inner.map(|inner| inner.header.trim_matches(['[', ']'])) {
            let name = if outer.is_empty() { Some(inner) } else { inner.strip_prefix(outer) };
            let name = name.map(|name| name.trim_start_matches('.'));
            described.extend(name.and_then(|name| name.split('.').next()).map(str::to_owned));
        }
        assert_eq!(accepted(section), described, "{}", section.header);
    }
}

#[test]
fn every_described_key_is_accepted() {
    for section in sections() {
        for key in section.keys {
            let mut values = vec![key.example.to_owned()];
            if let KeyKind::Choice(choices) = key.kind {
                values.extend(choices.iter().map(|(value, _)| format!("\"{value}\"")));
            }
            for value in values {
                for name in [key.name.to_owned(), key.name.replace('_', "-")] {
                    let text = file(section, &line(key, &value)).replace(key.name, &name);
                    assert!(Config::parse(&text).is_ok(), "{text}: {:?}", Config::parse(&text));
                }
            }
        }
    }
}

#[test]
fn every_described_default_is_the_default() {
    let parse = |section, text: &str| Config::parse(&file(section, text)).unwrap();
    for section in sections() {
        for key in section.keys {
            let set = parse(section, &line(key, key.example));
            match key.default {
                DefaultValue::Value(value) => {
                    let default = parse(section, &line(key, value));
                    assert_eq!(default, parse(section, ""), "{} {}", section.header, key.name);
                }
                DefaultValue::Derived(_) => {
                    assert_ne!(set, parse(section, ""), "{} {}", section.header, key.name);
                }
                DefaultValue::Required => {}
            }
        }
    }
    let policy: &PluginPolicy = &Config::parse("[[plugin]]\nmatch = '*'").unwrap().plugin[0];
    assert_eq!(policy.consecutive_timeouts, 1);
}
