//! `nrictl explain` after many updates by three plugins and the engine: the last value of each
//! field is that of the kernel.

use crate::{
    field::{Field, Values, join},
    table::{allow_realtime, available_fields, initial_resources, named},
    update,
};
use nri_integration::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const PLUGINS: [&str; 3] = ["10-replying", "20-sending", "30-sending"];

/// Number of updates of the container. The replies of the first plugin come in addition.
const UPDATES: usize = 50;

/// Who updates in turn: the engine, then each plugin.
const AUTHORS: usize = 1 + PLUGINS.len();

/// An update of one field.
struct FieldUpdate {
    /// 0 is the engine, others are [`PLUGINS`].
    author: usize,
    field: &'static Field,
    value: Value,
    /// What the first plugin adds to the update of the engine.
    reply: Option<(&'static Field, Value)>,
}

/// Chooses values that are not those which a field has.
struct Chooser {
    current: Values,
    /// A value that the engine repeats does not count as a request.
    of_engine: Values,
}

impl Chooser {
    fn choose(&mut self, field: &'static Field, by_engine: bool) -> Value {
        let last = field.values.iter().position(|value| {
            serde_json::from_str::<Value>(value).ok().as_ref() == self.current.get(field.name)
        });
        let steps = 1..=field.values.len();
        let mut values = steps.map(|step| field.value(last.unwrap_or_default() + step));
        let value = values
            .find(|value| !by_engine || Some(value) != self.of_engine.get(field.name))
            .expect("the field has three values");
        self.current.insert(field.name, value.clone());
        if by_engine {
            self.of_engine.insert(field.name, value.clone());
        }
        value
    }
}

/// Plans the updates. Each author updates each field, since its turn moves with each round.
fn plan(fields: &[&'static Field], chooser: &mut Chooser) -> Vec<FieldUpdate> {
    let count = fields.len();
    (0..UPDATES)
        .map(|n| {
            let (author, field) = ((n + n / count) % AUTHORS, fields[n % count]);
            let value = chooser.choose(field, author == 0);
            let reply = (author == 0).then(|| {
                let field = fields[(n + 1) % count];
                (field, chooser.choose(field, false))
            });
            FieldUpdate { author, field, value, reply }
        })
        .collect()
}

fn explain(node: &Node, id: &str) -> Value {
    let ended = node.ctl(&["explain", "--json", id]).success();
    serde_json::from_str(&ended.out()).expect("nrictl prints JSON")
}

/// Returns the resources of an explanation, by the names of the table.
fn explained_resources(explained: &Value) -> BTreeMap<&'static str, &Value> {
    let fields = explained["fields"].as_array().expect("fields is a list").iter();
    let resources = fields.filter(|field| {
        field["path"].as_str().is_some_and(|path| path.starts_with("/linux/resources/"))
    });
    resources
        .map(|field| {
            let name = field["field"].as_str().unwrap_or_default();
            (named(name.split_once('[').map_or(name, |(name, _)| name)).name, field)
        })
        .collect()
}

#[test]
fn explain_ends_with_the_values_of_the_kernel_after_fifty_updates() {
    let Some(go_plugin) = go_plugin("explain") else { return };
    for_each_runtime("explain", |runtime| {
        let node = Node::new(runtime);
        let fields: Vec<_> = available_fields(&node, "explain")
            .into_iter()
            .filter(|field| field.settable_by_engine() && field.values.len() > 1)
            .collect();
        let first = node.id("first");
        node.create(&node.bundle(&first).make(), &first).success();
        allow_realtime(&node, &first, 20_000);
        let (updatable, fixed): (Vec<&Field>, Vec<&Field>) = fields
            .iter()
            .copied()
            .filter(|field| field.settable_by_plugins())
            .partition(|field| field.updatable);
        let initial: Values = fields.iter().map(|f| (f.name, f.value(0))).collect();
        let mut chooser = Chooser { current: initial.clone(), of_engine: initial };
        let adjusted: Vec<_> = fixed.iter().map(|f| f.message(&chooser.choose(f, false))).collect();
        let updates = plan(&updatable, &mut chooser);

        let id = node.id("c");
        let turns = updates.iter().filter_map(|update| update.reply.as_ref());
        let turns: Vec<_> = turns.map(|(field, value)| [field.update("", value)]).collect();
        let adjust = json!({"linux": {"resources": join(adjusted)}});
        let rules = json!([
            {"id": id, "adjust": adjust},
            {"event": "UpdateContainer", "id": id, "turns": turns},
        ]);
        let replying =
            json!({"events": ["CreateContainer", "UpdateContainer"], "rules": rules}).to_string();
        let sending = json!({"events": ["RemovePodSandbox"]}).to_string();
        let mut plugins: Vec<_> = PLUGINS
            .iter()
            .zip([&replying, &sending, &sending])
            .map(|(name, config)| node.connect(name, &go_plugin, config))
            .collect();
        let resources = initial_resources(&fields).to_string();
        let bundle = node.bundle(&id).resources(&resources).arguments(&["/bin/sleep", "1000"]);
        node.create(&bundle.make(), &id).success();
        node.call(&["start", &id]).success();
        let mut done = [0; PLUGINS.len()];
        for FieldUpdate { author, field, value, .. } in &updates {
            let Some(n) = author.checked_sub(1) else {
                update(&node, &id, &field.resources(value)).success();
                continue;
            };
            plugins[n].send(&json!({"update": [field.update(&id, value)]}));
            done[n] += 1;
            let replies = wait_until("the reply to an update of a plugin", || {
                let entries = plugins[n].journal.entries();
                let replies = entries.into_iter().filter(|e| e["event"] == "UpdateContainers");
                Some(replies.collect::<Vec<_>>()).filter(|replies| replies.len() == done[n])
            });
            let reply = &replies[done[n] - 1];
            assert_eq!(
                (&reply["failed"], &reply["error"]),
                (&Value::Null, &Value::Null),
                "{} of {}",
                field.name,
                PLUGINS[n]
            );
        }

        // The log is written shortly after the events.
        let replies = updates.iter().filter(|update| update.reply.is_some()).count();
        let explained = wait_until("all updates in the audit log", || {
            let explained = explain(&node, &id);
            let events = explained["events"].as_array()?.iter();
            let changed = events.filter(|line| line["event"] == "update");
            let count: usize =
                changed.map(|line| line["changes"].as_array().map_or(0, Vec::len)).sum();
            assert!(count <= UPDATES + replies, "{explained}");
            (count == UPDATES + replies).then_some(explained)
        });
        let resources = explained_resources(&explained);
        let names = |fields: Vec<&'static Field>| fields.into_iter().map(|field| field.name);
        let expected: BTreeSet<_> = names(updatable).chain(names(fixed)).collect();
        assert_eq!(resources.keys().copied().collect::<BTreeSet<_>>(), expected);
        // A limit of huge pages is shown with its page size.
        let value = |shown: &Value| shown.get("limit").unwrap_or(shown).clone();
        let last: Values = resources.iter().map(|(name, f)| (*name, value(&f["after"]))).collect();
        let mut authors = BTreeSet::new();
        for (name, explained) in &resources {
            named(name).check(&node, &id, &last[name], &last, "at the end of explain");
            assert_eq!(last[name], chooser.current[name], "{name}");
            let changes = explained["changes"].as_array().expect("changes is a list");
            let before = value(&changes[0]["before"]);
            assert_eq!(before, named(name).value(0), "{name}: {changes:?}");
            for pair in changes.windows(2) {
                assert_eq!(pair[0]["after"], pair[1]["before"], "{name}: {changes:?}");
            }
            authors.extend(changes.iter().map(|change| change["by"].to_string()));
        }
        let everyone = PLUGINS.iter().chain(&["engine"]).map(|name| format!("{name:?}"));
        assert_eq!(authors, everyone.collect());
    });
}
