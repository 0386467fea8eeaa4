//! Files of version 2 by their names: `linux.resources.unified`.

use crate::{Expect, Place, Plan, Setting};
use serde_json::Value;

pub(crate) fn add(resources: &Value, place: &Place, plan: &mut Plan) {
    for (name, value) in resources.get("unified").and_then(Value::as_object).into_iter().flatten() {
        let field = format!("unified.{name}");
        let (Some(dir), Some(value)) = (place.unified(), value.as_str()) else {
            plan.none(field);
            continue;
        };
        // A name, and no path.
        if name.is_empty() || name.contains('/') || name.starts_with("cgroup.") {
            plan.none(field);
            continue;
        }
        let lines: Vec<&str> = value.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
        for line in &lines {
            for (index, expect) in expected(name, line).into_iter().enumerate() {
                plan.settings.push(Setting {
                    field: field.clone(),
                    files: vec![dir.join(name)],
                    // One line is one write, however many words are looked at.
                    write: if index == 0 { vec![(*line).to_owned()] } else { Vec::new() },
                    expect,
                    optional: false,
                });
            }
        }
    }
}

/// How the kernel shows what was written.
fn expected(name: &str, line: &str) -> Vec<Expect> {
    match line.split_once(char::is_whitespace) {
        Some((key, rest)) if key.contains(':') && rest.contains('=') => {
            let word = |word: &str| {
                let (name, value) = word.split_once('=')?;
                Some(Expect::Word {
                    key: key.to_owned(),
                    name: name.to_owned(),
                    value: value.to_owned(),
                })
            };
            rest.split_whitespace().filter_map(word).collect()
        }
        Some((key, rest)) if key.contains(':') => {
            vec![Expect::Line { key: key.to_owned(), rest: vec![rest.trim().to_owned()] }]
        }
        _ if name.starts_with("cpuset.") && line.starts_with(|c: char| c.is_ascii_digit()) => {
            vec![Expect::Set(line.to_owned())]
        }
        _ if name.starts_with("memory.") => match (line, line.parse::<u64>()) {
            ("max", _) => vec![Expect::Bytes(None)],
            (_, Ok(bytes)) => vec![Expect::Bytes(Some(bytes))],
            _ => vec![Expect::text(line)],
        },
        _ => vec![Expect::text(line)],
    }
}
