//! Random concurrent updates of many containers: by the engine, by plugins that reply to the
//! engine's updates, and by unsolicited updates of plugins. No update may be lost, each result must
//! be reported correctly, and after the updates kernel, runtime and records must agree.
//!
//! `NRI_UPDATES=10000` and `NRI_CONTAINERS=100` set the numbers of updates and containers;
//! `NRI_SEED=N` repeats the choices of an earlier run, but not its timing. `make test-updates` runs
//! the test with these numbers.

mod final_state;
mod history;
mod journal_reader;
mod plan;

use crate::{check_verified, field::join, table::named};
use history::{By, History, Key, Op, Outcome};
use journal_reader::JournalReader;
use nri_integration::*;
use plan::{Choice, PLUGINS, Plan};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    sync::Mutex,
    thread,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Number of concurrent callers of the wrapper.
const CALLERS: usize = 4;
/// Largest number of updates in one unsolicited request of a plugin.
const MAX_UPDATES: usize = 8;

/// Returns the number in an environment variable, or `default` if the variable is not set.
fn number_from_environment(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// One run: the node, its containers, and the history of their updates.
struct Run<'a> {
    node: &'a Node,
    ids: Vec<String>,
    history: Mutex<History>,
}

#[test]
fn no_concurrent_update_is_lost_or_reported_wrongly() {
    let Some(go_plugin) = go_plugin("random updates") else { return };
    let clock =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| u64::from(d.subsec_nanos()));
    let updates = number_from_environment("NRI_UPDATES", 400);
    let containers = number_from_environment("NRI_CONTAINERS", 20);
    for_each_runtime("random updates", |runtime| {
        let seed = number_from_environment("NRI_SEED", clock);
        let begin = Instant::now();
        println!(
            "NRI_SEED={seed} NRI_UPDATES={updates} NRI_CONTAINERS={containers} ({})",
            runtime.name
        );
        let node = Node::new(runtime);
        let fields = crate::table::available_fields(&node, "random updates")
            .iter()
            .map(|f| f.name)
            .collect();
        let plan = Plan::new(seed, containers as usize, fields);
        node.ctl(&["start"]).success();
        let ids = (0..containers).map(|n| node.id(&format!("c{n}"))).collect();
        let run = Run { node: &node, ids, history: Mutex::default() };
        create_containers(&run, &plan);

        // The rest of the updates are unsolicited ones of the two plugins.
        let engine_updates = updates * 2 / 5;
        let planned_replies = replies(&run, &plan, engine_updates as usize);
        let replying = json!({
            "events": ["UpdateContainer"],
            "rules": [{"event": "UpdateContainer", "turns": planned_replies}]
        });
        // The second plugin only sends unsolicited updates.
        let sending = json!({"events": ["RemovePodSandbox"]});
        let (mut replying_plugin, mut sending_plugin) = (
            node.connect(PLUGINS[0], &go_plugin, &replying.to_string()),
            node.connect(PLUGINS[1], &go_plugin, &sending.to_string()),
        );
        let created = begin.elapsed();
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (run, plan) = (&run, &plan);
                let share = (engine_updates as usize).div_ceil(CALLERS);
                scope.spawn(move || (0..share).for_each(|_| update_as_engine(run, plan, caller)));
            }
            for (plugin, name) in
                [(&mut replying_plugin, PLUGINS[0]), (&mut sending_plugin, PLUGINS[1])]
            {
                let (run, plan) = (&run, &plan);
                let share = (updates - engine_updates) as usize / 2;
                scope.spawn(move || send_updates(run, plan, plugin, name, share));
            }
        });
        let updated = begin.elapsed() - created;

        let mut history = run.history.into_inner().expect("no thread panics");
        history.add_replies(&replying_plugin.journal.entries(), &run.ids);
        history.check_outcomes();
        history.check_readings();
        final_state::check(&node, &run.ids, &history, &plan.fields);
        check_verified(&node);
        println!(
            "{}: {containers} containers in {created:.1?}, {} in {updated:.1?}, checked in {:.1?}",
            runtime.name,
            history.summary(),
            begin.elapsed() - created - updated
        );
    });
}

/// Creates and starts the containers.
fn create_containers(run: &Run<'_>, plan: &Plan) {
    let resources = join(plan.fields.iter().map(|name| named(name).resources(&plan.initial(name))));
    let next = Mutex::new(0..run.ids.len());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(n) = next.lock().expect("no thread panics").next() else { break };
                    let id = &run.ids[n];
                    let start = Instant::now();
                    let bundle = run.node.bundle(id).resources(&resources.to_string());
                    run.node
                        .create(&bundle.arguments(&["/bin/sleep", "100000"]).make(), id)
                        .success();
                    run.node.call(&["start", id]).success();
                    let writes =
                        plan.fields.iter().map(|name| (Key(n, name), plan.initial(name))).collect();
                    let outcome = Outcome::Succeeded;
                    run.record(Op {
                        by: By::Engine,
                        start,
                        end: Instant::now(),
                        outcome,
                        writes,
                        replied: BTreeSet::new(),
                        invalid: false,
                    });
                }
            });
        }
    });
}

impl Run<'_> {
    /// Records an update and, if it succeeded, the values that the kernel has right after it.
    fn record(&self, op: Op) {
        let succeeded = op.outcome == Outcome::Succeeded;
        let keys: Vec<Key> = op.writes.keys().copied().collect();
        let n = self.history.lock().expect("no thread panics").add(op);
        for Key(container, name) in keys.into_iter().filter(|_| succeeded) {
            let before = Instant::now();
            let found = named(name)
                .read(self.node, &self.ids[container])
                .expect("the file of the field exists");
            let mut history = self.history.lock().expect("no thread panics");
            history.add_reading(n, Key(container, name), found, before..Instant::now());
        }
    }
}

/// Makes one random update as an engine does.
fn update_as_engine(run: &Run<'_>, plan: &Plan, caller: usize) {
    let Choice { container, writes, invalid_cpu } = plan.engine_update();
    let id = &run.ids[container];
    let mut resources = join(writes.iter().map(|(name, value)| named(name).resources(value)));
    if let Some(cpus) = &invalid_cpu {
        resources["cpu"]["cpus"] = cpus.as_str().into();
    }
    let file = run.node.path(&format!("caller-{caller}"));
    std::fs::write(&file, resources.to_string()).expect("the test directory is writable");
    let start = Instant::now();
    let ended = run.node.call(&["update", "--resources", file.to_str().expect("UTF-8"), id]);
    // On a machine that is too slow for the test, the wrapper may find that nrid hangs.
    assert!(!ended.err().contains("continuing without NRI"), "not asked: {}", ended.err());
    let outcome =
        if ended.code == Some(0) { Outcome::Succeeded } else { Outcome::Failed(ended.err()) };
    let writes = writes.into_iter().map(|(name, value)| (Key(container, name), value)).collect();
    run.record(Op {
        by: By::Engine,
        start,
        end: Instant::now(),
        outcome,
        writes,
        replied: BTreeSet::new(),
        invalid: invalid_cpu.is_some(),
    });
}

/// Sends `share` random unsolicited updates as a plugin.
fn send_updates(
    run: &Run<'_>,
    plan: &Plan,
    plugin: &mut External,
    name: &'static str,
    share: usize,
) {
    let mut journal = JournalReader::new(&plugin.journal);
    let mut remaining = share;
    while remaining > 0 {
        let mut containers = BTreeSet::new();
        let mut choices = Vec::new();
        for _ in 0..plan.below(MAX_UPDATES.min(remaining)) + 1 {
            let choice = plan.plugin_update();
            if containers.insert(choice.container) {
                choices.push(choice);
            }
        }
        remaining -= choices.len().min(remaining);
        let updates: Vec<Value> =
            choices.iter().map(|c| c.message(&run.ids[c.container])).collect();
        let start = Instant::now();
        plugin.send(&json!({"update": updates}));
        let entry = journal.next("UpdateContainers");
        let end = Instant::now();
        assert_eq!(entry["error"], Value::Null, "{entry}");
        let has_failed =
            |id: &String| entry["failed"].as_array().is_some_and(|f| f.iter().any(|i| i == id));
        for Choice { container, writes, invalid_cpu } in choices {
            let outcome = match has_failed(&run.ids[container]) {
                true => Outcome::Failed("in the list of failed updates".to_owned()),
                false => Outcome::Succeeded,
            };
            let writes =
                writes.into_iter().map(|(name, value)| (Key(container, name), value)).collect();
            run.record(Op {
                by: By::Plugin(name),
                start,
                end,
                outcome,
                writes,
                replied: BTreeSet::new(),
                invalid: invalid_cpu.is_some(),
            });
        }
    }
}

/// Returns the replies of the first plugin, one for each update by the engine. A reply may change
/// the engine's update and may update other containers.
fn replies(run: &Run<'_>, plan: &Plan, count: usize) -> Vec<Vec<Value>> {
    let reply = |_| {
        let mut list = Vec::new();
        if plan.below(10) < 4 {
            // The Go plugin replaces an empty id by that of the container in the request.
            list.push(plan.own_reply().message(""));
        }
        if plan.below(10) < 2 {
            let other = plan.other_reply();
            list.push(other.message(&run.ids[other.container]));
        }
        list
    };
    // The callers' equal shares are rounded up, so that they may exceed `count`.
    (0..count + CALLERS).map(reply).collect()
}
