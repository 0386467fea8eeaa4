//! The picture of `nrictl explain --html`: the way of a creation from the engine through the
//! plugins to the runtime, and the updates after it, as an inline SVG.

use crate::{
    audit::history::{ContainerHistory, author, is_of_life, shown_end},
    units::counted,
};
use maud::{Markup, html};
use nri_files::{AuditEvent, AuditLine, MissedPlugin};
use nri_values::printable;
use std::collections::BTreeMap;

/// Width of the picture; all measures are in its units.
const WIDTH: usize = 760;
const BOX_LEFT: usize = 2;
const BOX_WIDTH: usize = 210;
const BOX_HEIGHT: usize = 34;
const DETAIL_LEFT: usize = 228;
const LINE_HEIGHT: usize = 18;
/// Distance of two boxes, which the arrow between them crosses.
const GAP: usize = 26;
/// Distance from the top of a box or line to the base line of its text.
const BASELINE: usize = 22;

/// Maximum number of details of a station.
const MAX_DETAILS: usize = 12;
/// Maximum number of characters of a name and of a detail, which must fit the picture.
const MAX_NAME: usize = 24;
const MAX_DETAIL: usize = 65;

/// A station of the way, from the top to the bottom.
#[derive(Debug, PartialEq)]
struct Station {
    /// Class of its style: empty, `changed`, `missed`, `good` or `bad`.
    class: &'static str,
    name: String,
    details: Vec<String>,
}

impl Station {
    fn new(class: &'static str, name: &str, details: Vec<String>) -> Self {
        Self { class, name: name.to_owned(), details }
    }
}

/// Draws the picture.
pub(super) fn picture(history: &ContainerHistory) -> Markup {
    let stations = stations(history);
    let mut tops = Vec::new();
    let mut bottom = 2;
    for station in &stations {
        tops.push(bottom);
        let further_lines = shown(&station.details).len().saturating_sub(1);
        bottom += BOX_HEIGHT + further_lines * LINE_HEIGHT + GAP;
    }
    let height = (bottom + 2).saturating_sub(GAP);
    let middle = BOX_LEFT + BOX_WIDTH / 2;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img"
            aria-label="The way of the container through the plugins"
        {
            @for (station, top) in stations.iter().zip(&tops) {
                g class=(station.class) {
                    rect x=(BOX_LEFT) y=(top) width=(BOX_WIDTH) height=(BOX_HEIGHT) rx="6" {}
                    text class="name" x=(BOX_LEFT + 12) y=(top + BASELINE) {
                        (cut(&station.name, MAX_NAME))
                    }
                    @for (n, detail) in shown(&station.details).iter().enumerate() {
                        text class="detail" x=(DETAIL_LEFT) y=(top + BASELINE + n * LINE_HEIGHT) {
                            (cut(detail, MAX_DETAIL))
                        }
                    }
                }
            }
            @for (from, to) in tops.iter().zip(tops.iter().skip(1)) {
                path class="arrow" d={ "M" (middle) " " (from + BOX_HEIGHT) " V" (to - 7) } {}
                path class="head" d={ "M" (middle - 5) " " (to - 8) " h10 l-5 7 z" } {}
            }
        }
    }
}

/// Returns the stations of a container.
fn stations(history: &ContainerHistory) -> Vec<Station> {
    let names = &history.names;
    let engine = if names.engine.is_empty() { "engine" } else { &names.engine };
    let mut stations = vec![Station::new("", engine, vec!["requests the container".to_owned()])];
    stations.extend(plugins(history));
    let refusal = history.notes.iter().find(|note| is_refused_creation(note));
    let failure = history.notes.iter().find(|note| note.event == AuditEvent::Failed);
    let runtime = if names.runtime.is_empty() { "runtime" } else { &names.runtime };
    let is_created = history.events.iter().any(|line| line.event == AuditEvent::Created);
    match (refusal, failure) {
        (Some(refusal), _) => {
            stations.push(Station::new("bad", "refused", vec![refusal.message.clone()]));
        }
        (None, Some(failure)) if !is_created => {
            stations.push(Station::new("bad", runtime, vec![failure.message.clone()]));
        }
        _ => stations.push(Station::new("good", runtime, outcome(&history.events))),
    }
    let updates = updates(&history.events);
    if !updates.is_empty() {
        stations.push(Station::new("", "updates", updates));
    }
    stations
}

fn is_refused_creation(note: &AuditLine) -> bool {
    note.event == AuditEvent::Refusal
        && matches!(note.request.as_str(), "create" | "run" | "restore")
}

/// Returns the plugins that were called or missed, in the order of their indices.
fn plugins(history: &ContainerHistory) -> Vec<Station> {
    let mut found = BTreeMap::new();
    for plugin in &history.plugins {
        found.insert(plugin.clone(), Station::new("", plugin, Vec::new()));
    }
    for field in &history.fields {
        for step in &field.changes {
            match step.event {
                AuditEvent::Adjustment => add(&mut found, &step.by, "changed", &field.field),
                AuditEvent::WouldAdjust => {
                    let detail = format!("would have changed {}", field.field);
                    add(&mut found, &step.by, "", &detail);
                }
                _ => {}
            }
        }
    }
    // Requests of plugins are no part of the creation.
    for note in history.notes.iter().filter(|note| note.request != "plugin") {
        if note.event == AuditEvent::Ignored {
            note.ignored.iter().for_each(|what| {
                add(&mut found, &note.plugin, "changed", &format!("ignored: {what}"))
            });
        } else if is_refused_creation(note) && note.changes.is_empty() {
            add(&mut found, &note.plugin, "bad", "refused");
        } else if is_refused_creation(note) {
            let what = if note.plugin.contains(',') { "conflict" } else { "refused" };
            note.changes.iter().for_each(|change| {
                add(&mut found, &note.plugin, "bad", &format!("{what}: {}", change.field))
            });
        }
    }
    for MissedPlugin { plugin, why } in &history.missed {
        add(&mut found, plugin, "missed", &format!("not called: {why}"));
    }
    let mut stations: Vec<_> = found.into_values().collect();
    for station in &mut stations {
        if station.details.is_empty() {
            station.details.push("changed nothing".to_owned());
        }
    }
    stations
}

/// Adds a detail to the stations of plugins, which are separated by commas.
fn add(stations: &mut BTreeMap<String, Station>, plugins: &str, class: &'static str, detail: &str) {
    for plugin in plugins.split(',').filter(|plugin| !plugin.is_empty()) {
        let station = stations.entry(plugin.to_owned());
        let station = station.or_insert_with(|| Station::new(class, plugin, Vec::new()));
        station.class = class;
        station.details.push(detail.to_owned());
    }
}

/// Describes what became of a container that was created.
fn outcome(events: &[AuditLine]) -> Vec<String> {
    let of_life = events.iter().filter(|line| is_of_life(line.event));
    let words = of_life.map(|line| match shown_end(line) {
        Some(end) => format!("{} with {end}", line.event.name()),
        None => line.event.name().to_owned(),
    });
    Some(words.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty()).into_iter().collect()
}

/// Returns the number of updates of each author, and evictions.
fn updates(events: &[AuditLine]) -> Vec<String> {
    let mut counts = BTreeMap::<&str, usize>::new();
    for line in events.iter().filter(|line| line.event == AuditEvent::Update) {
        *counts.entry(author(line)).or_default() += 1;
    }
    let updates =
        counts.into_iter().map(|(by, count)| format!("{by}: {}", counted(count, "update")));
    let evictions = events.iter().filter(|line| line.event == AuditEvent::Eviction);
    updates.chain(evictions.map(|line| format!("{}: eviction", author(line)))).collect()
}

/// Returns the details that are drawn, the last of which may stand for others.
fn shown(details: &[String]) -> Vec<String> {
    if details.len() <= MAX_DETAILS {
        return details.to_vec();
    }
    let (first, more) = details.split_at(MAX_DETAILS - 1);
    let more = format!("and {} more", more.len());
    first.iter().cloned().chain([more]).collect()
}

/// Returns a text of at most this many characters.
fn cut(text: &str, max: usize) -> String {
    let text = printable(text);
    match text.char_indices().nth(max) {
        Some(_) => text.chars().take(max - 1).chain(['…']).collect(),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::FieldChange;

    fn history(lines: Vec<AuditLine>) -> ContainerHistory {
        ContainerHistory::of(lines, "c").unwrap()
    }

    fn line(event: AuditEvent, plugin: &str) -> AuditLine {
        let (container, plugin) = ("c".to_owned(), plugin.to_owned());
        let (request, engine) = ("create".to_owned(), "docker".to_owned());
        AuditLine { event, container, plugin, request, engine, ..AuditLine::default() }
    }

    fn changing(line: AuditLine, fields: &[&str]) -> AuditLine {
        let change = |field: &&str| FieldChange {
            field: (*field).to_owned(),
            after: Some(true.into()),
            ..FieldChange::default()
        };
        AuditLine { changes: fields.iter().map(change).collect(), ..line }
    }

    fn consulted() -> AuditLine {
        let missed = vec![MissedPlugin { plugin: "15-m".into(), why: "it ended".into() }];
        let plugins = ["10-a", "20-b"].map(String::from).to_vec();
        AuditLine { plugins, missed, ..line(AuditEvent::Consulted, "") }
    }

    fn described(history: &ContainerHistory) -> Vec<String> {
        let text = |s: Station| format!("{} [{}] {}", s.name, s.class, s.details.join("; "));
        stations(history).into_iter().map(text).collect()
    }

    #[test]
    fn the_way_leads_through_all_plugins_to_the_runtime_and_its_updates() {
        let update = |plugin| changing(line(AuditEvent::Update, plugin), &["pids.limit"]);
        let history = history(vec![
            changing(line(AuditEvent::Adjustment, "20-b"), &["args", "pids.limit"]),
            consulted(),
            line(AuditEvent::Created, ""),
            update(""),
            update(""),
            update("30-c"),
            AuditLine { exit_code: Some(2), ..line(AuditEvent::Stopped, "") },
        ]);
        assert_eq!(
            described(&history),
            [
                "docker [] requests the container",
                "10-a [] changed nothing",
                "15-m [missed] not called: it ended",
                "20-b [changed] args; pids.limit",
                "runtime [good] created, stopped with exit code 2",
                "updates [] 30-c: 1 update; engine: 2 updates",
            ]
        );
    }

    #[test]
    fn the_way_of_a_refused_creation_ends_at_the_refusal() {
        let refusal = changing(line(AuditEvent::Refusal, "20-b,10-a"), &["pids.limit"]);
        let refusal = AuditLine { message: "conflict".into(), ..refusal };
        assert_eq!(
            described(&history(vec![consulted(), refusal])),
            [
                "docker [] requests the container",
                "10-a [bad] conflict: pids.limit",
                "15-m [missed] not called: it ended",
                "20-b [bad] conflict: pids.limit",
                "refused [bad] conflict",
            ]
        );
        let failure = AuditLine { message: "exit code 1".into(), ..line(AuditEvent::Failed, "") };
        let last = described(&history(vec![consulted(), failure])).pop().unwrap();
        assert_eq!(last, "runtime [bad] exit code 1");
    }

    #[test]
    fn long_texts_and_many_details_are_cut() {
        assert_eq!(cut("12345", 5), "12345");
        assert_eq!(cut("123456", 5), "1234…");
        let details: Vec<_> = (0..20).map(|n| n.to_string()).collect();
        let shown = shown(&details);
        assert_eq!((shown.len(), &*shown[11]), (12, "and 9 more"));
    }
}
