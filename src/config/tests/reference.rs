//! The parser accepts what the reference says about keys, values and defaults.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{
    Config, DefaultValue, KeyDescription, KeyKind, PluginPolicy, SectionDescription, sections,
};

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
