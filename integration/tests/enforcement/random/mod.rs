//! Many containers and many random updates at once, by the engine, by plugins' answers to it, and
//! by plugins out of themselves: nothing is lost, nothing is reported wrongly, and in the end
//! kernel, runtime and records agree.
//!
//! `NRI_UPDATES=10000`, `NRI_CONTAINERS=100`: how many; `NRI_SEED=N` repeats the choices of a run
//! (not its timing). `make test-updates` does it in full.

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

/// How many engines' clients call at once.
const CALLERS: usize = 4;
/// How many updates a plugin requests at once, at most.
const MOST: usize = 8;

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().unwrap_or_else(|e| panic!("{name}: {e}")))
}

/// One run: the node with its containers, and what was done to them.
struct Run<'a> {
    node: &'a Node,
    ids: Vec<String>,
    history: Mutex<History>,
}

#[test]
fn random_updates_at_once_lose_nothing() {
    let Some(go) = go("random updates") else { return };
    let clock =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| u64::from(d.subsec_nanos()));
    let (updates, containers) = (number("NRI_UPDATES", 400), number("NRI_CONTAINERS", 20));
    for_each_runtime("random updates", |runtime| {
        let seed = number("NRI_SEED", clock);
        let begin = Instant::now();
        println!(
            "NRI_SEED={seed} NRI_UPDATES={updates} NRI_CONTAINERS={containers} ({})",
            runtime.name
        );
        let node = Node::new(runtime);
        let fields = crate::table::there(&node, "random updates").iter().map(|f| f.name).collect();
        let plan = Plan::new(seed, containers as usize, fields);
        node.ctl(&["start"]).success();
        let ids = (0..containers).map(|n| node.id(&format!("c{n}"))).collect();
        let run = Run { node: &node, ids, history: Mutex::default() };
        create(&run, &plan);

        let by_engine = updates * 2 / 5;
        let a = json!({
            "events": ["UpdateContainer"],
            "rules": [{"event": "UpdateContainer", "turns": answers(&run, &plan, by_engine as usize)}]
        });
        let b = json!({"events": ["RemovePodSandbox"]});
        let (mut a, mut b) = (
            node.connect(PLUGINS[0], &go, &a.to_string()),
            node.connect(PLUGINS[1], &go, &b.to_string()),
        );
        let created = begin.elapsed();
        thread::scope(|scope| {
            for caller in 0..CALLERS {
                let (run, plan) = (&run, &plan);
                let share = (by_engine as usize).div_ceil(CALLERS);
                scope.spawn(move || (0..share).for_each(|_| call(run, plan, caller)));
            }
            for (plugin, name) in [(&mut a, PLUGINS[0]), (&mut b, PLUGINS[1])] {
                let (run, plan) = (&run, &plan);
                let share = (updates - by_engine) as usize / 2;
                scope.spawn(move || ask(run, plan, plugin, name, share));
            }
        });
        let updated = begin.elapsed() - created;

        let mut history = run.history.into_inner().expect("no thread failed");
        history.take_answers(&a.journal.entries(), &run.ids);
        history.check_outcomes();
        history.check_seen();
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
fn create(run: &Run<'_>, plan: &Plan) {
    let resources = join(plan.fields.iter().map(|name| named(name).resources(&plan.first(name))));
    let next = Mutex::new(0..run.ids.len());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(n) = next.lock().expect("no thread failed").next() else { break };
                    let id = &run.ids[n];
                    let start = Instant::now();
                    let bundle = run.node.bundle(id).resources(&resources.to_string());
                    run.node
                        .create(&bundle.arguments(&["/bin/sleep", "100000"]).make(), id)
                        .success();
                    run.node.call(&["start", id]).success();
                    let writes =
                        plan.fields.iter().map(|name| (Key(n, name), plan.first(name))).collect();
                    let outcome = Outcome::Made;
                    run.record(Op {
                        by: By::Engine,
                        start,
                        end: Instant::now(),
                        outcome,
                        writes,
                        answered: BTreeSet::new(),
                        bad: false,
                    });
                }
            });
        }
    });
}

impl Run<'_> {
    /// Records what was done; where it was a success, also what the kernel holds just afterwards.
    fn record(&self, op: Op) {
        let made = op.outcome == Outcome::Made;
        let keys: Vec<Key> = op.writes.keys().copied().collect();
        let n = self.history.lock().expect("no thread failed").add(op);
        for Key(container, name) in keys.into_iter().filter(|_| made) {
            let before = Instant::now();
            let found =
                named(name).found(self.node, &self.ids[container]).expect("it was there before");
            let mut history = self.history.lock().expect("no thread failed");
            history.saw(n, Key(container, name), found, before..Instant::now());
        }
    }
}

/// One update by the engine.
fn call(run: &Run<'_>, plan: &Plan, caller: usize) {
    let Choice { container, writes, bad } = plan.engines();
    let id = &run.ids[container];
    let mut resources = join(writes.iter().map(|(name, value)| named(name).resources(value)));
    if let Some(cpus) = &bad {
        resources["cpu"]["cpus"] = cpus.as_str().into();
    }
    let file = run.node.path(&format!("caller-{caller}"));
    std::fs::write(&file, resources.to_string()).expect("our directory");
    let start = Instant::now();
    let ended = run.node.call(&["update", "--resources", file.to_str().expect("UTF-8"), id]);
    let outcome = if ended.code == Some(0) { Outcome::Made } else { Outcome::Failed(ended.err()) };
    let writes = writes.into_iter().map(|(name, value)| (Key(container, name), value)).collect();
    run.record(Op {
        by: By::Engine,
        start,
        end: Instant::now(),
        outcome,
        writes,
        answered: BTreeSet::new(),
        bad: bad.is_some(),
    });
}

/// Updates that a plugin requests out of itself.
fn ask(run: &Run<'_>, plan: &Plan, plugin: &mut External, name: &'static str, share: usize) {
    let mut journal = JournalReader::new(&plugin.journal);
    let mut left = share;
    while left > 0 {
        let mut containers = BTreeSet::new();
        let mut choices = Vec::new();
        for _ in 0..plan.below(MOST.min(left)) + 1 {
            let choice = plan.plugins();
            if containers.insert(choice.container) {
                choices.push(choice);
            }
        }
        left -= choices.len().min(left);
        let updates: Vec<Value> =
            choices.iter().map(|c| c.message(&run.ids[c.container])).collect();
        let start = Instant::now();
        plugin.send(&json!({"update": updates}));
        let entry = journal.next("UpdateContainers");
        let end = Instant::now();
        assert_eq!(entry["error"], Value::Null, "{entry}");
        let failed =
            |id: &String| entry["failed"].as_array().is_some_and(|f| f.iter().any(|i| i == id));
        for Choice { container, writes, bad } in choices {
            let outcome = match failed(&run.ids[container]) {
                true => Outcome::Failed("in the list of the failed".to_owned()),
                false => Outcome::Made,
            };
            let writes =
                writes.into_iter().map(|(name, value)| (Key(container, name), value)).collect();
            run.record(Op {
                by: By::Plugin(name),
                start,
                end,
                outcome,
                writes,
                answered: BTreeSet::new(),
                bad: bad.is_some(),
            });
        }
    }
}

/// What a plugin is to answer to the engine's updates, one after the other: changes of that update,
/// and updates of other containers.
fn answers(run: &Run<'_>, plan: &Plan, count: usize) -> Vec<Vec<Value>> {
    let answer = |_| {
        let mut list = Vec::new();
        if plan.below(10) < 4 {
            list.push(plan.own_answer().message(""));
        }
        if plan.below(10) < 2 {
            let other = plan.other_answer();
            list.push(other.message(&run.ids[other.container]));
        }
        list
    };
    (0..count + CALLERS).map(answer).collect()
}
