//! The cases and the notes are complete: each names only what exists.

use nri_conformance::{case, report::Notes};
use std::{collections::BTreeSet, path::Path};

const GROUPS_OF_VECTORS: [&str; 3] = ["vectors/conflicts", "vectors/results", "vectors/updates"];

fn data() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn every_case_parses_and_names_only_its_plugins() {
    let cases = case::load(&data().join("cases")).unwrap();
    assert!(cases.len() > 40, "{}", cases.len());
    for case in &cases {
        let plugins: BTreeSet<&str> = case.plugin.iter().map(|p| p.id.as_str()).collect();
        assert_eq!(plugins.len(), case.plugin.len(), "{}: a plugin twice", case.id);
        for step in &case.step {
            let named = match step {
                case::Step::Connect { plugin }
                | case::Step::Refused { plugin }
                | case::Step::Disconnect { plugin }
                | case::Step::Session { plugin, .. } => plugin,
                case::Step::Request(request) => &request.plugin,
                case::Step::Events(events) => &events.plugin,
                case::Step::Received(received) => &received.plugin,
                _ => continue,
            };
            assert!(plugins.contains(named.as_str()), "{} has no plugin {named}", case.id);
        }
        let checks = |step: &case::Step| !matches!(step, case::Step::Connect { .. });
        assert!(case.step.iter().any(checks), "{} checks nothing", case.id);
    }
}

#[test]
fn notes_are_about_existing_cases() {
    let cases = case::load(&data().join("cases")).unwrap();
    let mut known: BTreeSet<&str> = cases.iter().map(|case| case.id.as_str()).collect();
    known.extend(GROUPS_OF_VECTORS);
    for note in Notes::read(&data().join("notes.toml")).unwrap().note {
        assert!(known.contains(note.case.as_str()), "no case {}", note.case);
        if let Some(link) = &note.link {
            assert!(data().join("../../docs/reference").join(link).is_file(), "no document {link}");
        }
    }
}
