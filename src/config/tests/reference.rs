//! The reference describes every key of the model, and nothing else.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{
    Config, DefaultValue, KeyDescription, KeyKind, PluginPolicy, SectionDescription, sections,
};
use std::collections::BTreeSet;

/// Returns a file with one section: its required keys, then `lines`.
fn file(section: &SectionDescription, lines: &str) -> String {
    let header = section.header;
    let required = section.keys.iter().filter(|key| matches!(key.default, DefaultValue::Required));
    let required = required.filter(|key| !lines.starts_with(&format!("{} =", key.name)));
    let required: String =
        required.map(|key| format!("{} = {}\n", key.name, key.example)).collect();
    format!("{header}\n{required}{lines}\n")
}

fn assignment(key: &KeyDescription, value: &str) -> String {
    format!("{} = {value}", key.name)
}

/// Returns the keys that the model accepts in a section: its error about an unknown key lists them.
fn accepted_keys(section: &SectionDescription) -> BTreeSet<String> {
    let error = toml::from_str::<Config>(&file(section, "no-such-key = 1")).unwrap_err();
    let (_, names) = error.message().split_once("expected ").unwrap();
    names.split('`').skip(1).step_by(2).map(|name| name.replace('-', "_")).collect()
}

#[test]
fn every_key_of_the_model_is_described() {
    for section in sections() {
        let mut described: BTreeSet<String> =
            section.keys.iter().map(|key| key.name.to_owned()).collect();
        assert_eq!(described.len(), section.keys.len(), "{}", section.header);
        // A nested section is a key of the section around it: `[runtime.names.NAME]` adds the key
        // `names` to `[runtime]`.
        let others = sections().into_iter().filter(|other| other.header != section.header);
        let outer = section.header.trim_matches(['[', ']']);
        for other in others.map(|other| other.header.trim_matches(['[', ']'])) {
            let name = if outer.is_empty() { Some(other) } else { other.strip_prefix(outer) };
            let name = name.map(|name| name.trim_start_matches('.'));
            described.extend(name.and_then(|name| name.split('.').next()).map(str::to_owned));
        }
        assert_eq!(accepted_keys(section), described, "{}", section.header);
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
                    let text = file(section, &assignment(key, &value)).replace(key.name, &name);
                    assert!(Config::parse(&text).is_ok(), "{text}: {:?}", Config::parse(&text));
                }
            }
        }
    }
}

#[test]
fn every_described_default_has_the_effect_of_an_unset_key() {
    let parse = |section, text: &str| Config::parse(&file(section, text)).unwrap();
    for section in sections() {
        for key in section.keys {
            let with_example = parse(section, &assignment(key, key.example));
            match key.default {
                DefaultValue::Value(value) => {
                    let default = parse(section, &assignment(key, value));
                    assert_eq!(default, parse(section, ""), "{} {}", section.header, key.name);
                }
                DefaultValue::Derived(_) => {
                    assert_ne!(with_example, parse(section, ""), "{} {}", section.header, key.name);
                }
                DefaultValue::Required => {}
            }
        }
    }
    let policy: &PluginPolicy = &Config::parse("[[plugin]]\nmatch = '*'").unwrap().plugin[0];
    assert_eq!(policy.consecutive_timeouts, None);
}
