//! `nrictl explain --html`: the history of a container as one page, without scripts and without
//! anything that a browser would have to load. The template escapes every value.

use crate::audit::{
    diff,
    events::shown_missed,
    filter::shown_time,
    history::{ContainerHistory, FieldHistory, author, is_of_life, shown_end},
    picture::picture,
    shown::{SHADOW, requests, shown_author, shown_step_time},
};
use crate::units::size_of_field;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use nri_files::AuditLine;
use nri_values::printable;
use serde_json::Value;

/// Colours and layout of the page and of its picture; dark where the browser is, light on paper.
const STYLE: &str = include_str!("page.css");

/// Forbids a browser to load or run anything, whatever the page has.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Returns the page. `note` says what is not from the log.
pub(super) fn page(history: &ContainerHistory, note: &str) -> Markup {
    let names = &history.names;
    let title = if names.name.is_empty() { &names.container } else { &names.name };
    let diff = diff::unified(history);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Plugins of " (text(title)) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (text(title)) }
                (facts(history))
                h2 { "The way through the plugins" }
                figure { (picture(history)) }
                h2 { "Changes" }
                @if history.is_shadow() { p { (SHADOW) "." } }
                @if history.fields.is_empty() { p { "No field was changed." } }
                @else { (changes(&history.fields)) }
                @for line in requests(history) { p { (text(&line)) "." } }
                @if !note.is_empty() { p { (note) "." } }
                @if !history.notes.is_empty() {
                    h2 { "Refused, failed or ignored" }
                    (notes(&history.notes))
                }
                @if !diff.is_empty() {
                    h2 { "config.json" }
                    p { "The values that plugins changed at the creation, and the keys that lead \
                         to them." }
                    (coloured(&diff))
                }
                footer { "nrictl " (env!("CARGO_PKG_VERSION")) ", from the audit log. Times are \
                         UTC. Values of environment variables are masked unless the configuration \
                         shows them." }
            }
        }
    }
}

/// Returns the names of the container and the events of its life.
fn facts(history: &ContainerHistory) -> Markup {
    let names = &history.names;
    let pod = [&*names.namespace, &*names.pod_name].into_iter().filter(|name| !name.is_empty());
    let pod = pod.collect::<Vec<_>>().join("/");
    let known = [
        ("id", &names.container),
        ("engine", &names.engine),
        ("runtime", &names.runtime),
        ("pod", &pod),
    ];
    html! {
        dl {
            @for (label, value) in known.into_iter().filter(|(_, value)| !value.is_empty()) {
                dt { (label) } dd { code { (text(value)) } }
            }
            @for line in history.events.iter().filter(|line| is_of_life(line.event)) {
                dt { (line.event.name()) }
                dd {
                    (text(&shown_time(&line.time)))
                    @if let Some(end) = shown_end(line) { ", " (text(&end)) }
                    @if line.from_record { " (record)" }
                }
            }
            @for missed in &history.missed {
                dt class="bad" { "created" } dd { (text(&shown_missed(missed))) }
            }
        }
    }
}

/// Returns a table with a row for each change.
fn changes(fields: &[FieldHistory]) -> Markup {
    html! {
        table {
            thead { tr { th { "field" } th { "before" } th { "after" } th { "by" } th { "time" } } }
            @for field in fields {
                tbody {
                    @for (n, step) in field.changes.iter().enumerate() {
                        tr {
                            @if n == 0 {
                                th rowspan=(field.changes.len()) { (text(&field.field)) }
                            }
                            td { (value(&field.field, step.before.as_ref())) }
                            td { (value(&field.field, step.after.as_ref())) }
                            td class="by" { (text(&shown_author(step))) }
                            td { (text(&shown_step_time(step))) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns a table of refusals, evictions, failures, and of what was ignored.
fn notes(notes: &[AuditLine]) -> Markup {
    html! {
        table {
            thead { tr { th { "what" } th { "request" } th { "by" } th { "why" } th { "time" } } }
            tbody {
                @for note in notes {
                    tr {
                        th class="bad" { (note.event.name()) }
                        td { (text(&note.request)) }
                        td class="by" { (text(author(note))) }
                        td { (text(&note.message)) (text(&note.ignored.join(", "))) }
                        td { (text(&shown_time(&note.time))) }
                    }
                }
            }
        }
    }
}

/// Returns the value of a field: a size for people, a text as it is, anything else as JSON.
fn value(field: &str, value: Option<&Value>) -> Markup {
    let size = value.and_then(|value| size_of_field(field, value));
    html! {
        @match value {
            Some(_) if size.is_some() => code { (size.unwrap_or_default()) },
            None => span class="none" { "none" },
            Some(Value::String(value)) => code { (text(value)) },
            Some(value) => code { (text(&value.to_string())) },
        }
    }
}

/// Returns a unified diff with coloured lines.
fn coloured(diff: &str) -> Markup {
    html! {
        pre {
            @for line in diff.lines() {
                @let class = match line.as_bytes().first() {
                    Some(b'+') => "added",
                    Some(b'-') => "removed",
                    _ => "same",
                };
                span class=(class) { (text(line)) "\n" }
            }
        }
    }
}

/// Returns a text without characters that control terminals or change the direction of the text.
pub(super) fn text(text: &str) -> String {
    printable(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_files::{AuditEvent, FieldChange};
    use serde_json::json;

    /// Returns the page of a container with this text as its name, in a plugin and in values.
    fn page_with(text: &str) -> String {
        let line = |event| AuditLine {
            time: "2026-01-02T03:04:05.000006Z".into(),
            container: "c".into(),
            name: text.into(),
            plugin: format!("10-{text}"),
            request: "create".into(),
            message: text.into(),
            event,
            ..AuditLine::default()
        };
        let change = FieldChange {
            field: format!("annotations[{text}]"),
            path: format!("/annotations/{text}"),
            before: None,
            after: Some(json!({ text: text })),
        };
        let adjusted = AuditLine { changes: vec![change], ..line(AuditEvent::Adjustment) };
        let lines = vec![adjusted, line(AuditEvent::Created), line(AuditEvent::Refusal)];
        page(&ContainerHistory::of(lines, "c").unwrap(), "").into_string()
    }

    #[test]
    fn texts_of_plugins_are_escaped() {
        let page = page_with("</code></svg><script src='http://x/y'>\u{1b}[2J\"&\u{202e}");
        assert!(!page.contains("<script") && page.contains("&lt;script src='http://x/y'&gt;"));
        assert!(!page.contains(['\u{1b}', '\u{202e}']), "{page}");
        assert_eq!((page.matches("</svg>").count(), page.matches("</html>").count()), (1, 1));
    }

    #[test]
    fn the_page_loads_and_runs_nothing() {
        let page = page_with("text");
        for forbidden in ["<script", "<link", "<img", " src=", "href", "url(", "@import", "http:"] {
            assert!(!page.contains(forbidden), "{forbidden}");
        }
        assert!(page.contains("default-src 'none'"), "{page}");
    }
}
