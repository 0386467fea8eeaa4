//! A container for each field: what a plugin set stays through all that comes, until somebody
//! changes it.

use crate::{
    check_verified,
    field::{Field, Values},
    table::{allow_realtime, configure_classes, requested, there},
    update,
};
use nri_integration::*;
use serde_json::{Value, json};

/// The containers of one node, each with one field that a plugin set.
struct Life<'a> {
    node: &'a Node,
    fields: Vec<&'static Field>,
    /// Step that the engine's values have come to, by field; counted for all containers.
    step: usize,
    /// Effective value of the field that is the plugin's, and of those that others depend on.
    now: Vec<Values>,
}

impl Life<'_> {
    fn id(&self, field: &Field) -> String {
        self.node.id(&field.name.replace('.', "-"))
    }

    /// The fields that plugins set, with their containers.
    fn set(&self) -> Vec<(usize, &'static Field, String)> {
        let all = self.fields.iter().enumerate();
        all.filter(|(_, f)| f.is_plugins() && self.chosen(f))
            .map(|(n, f)| (n, *f, self.id(f)))
            .collect()
    }

    /// Whether the field is among those of `NRI_TEST_FIELDS`, where that is set.
    fn chosen(&self, field: &Field) -> bool {
        let only = std::env::var("NRI_TEST_FIELDS");
        only.map_or(true, |only| only.split(',').any(|name| name == field.name))
    }

    /// Checks what plugins set in each container, and takes it over if it is new.
    fn check(&mut self, value: impl Fn(&Field) -> Option<Value>, when: &str) {
        for (n, field, id) in self.set() {
            if let Some(value) = value(field) {
                self.now[n].insert(field.name, value);
            }
            field.check(self.node, &id, &self.now[n][field.name], &self.now[n], when);
        }
    }

    /// The engine updates other fields of a container, `most` of them: they change, and the
    /// plugin's stays.
    fn update_others(&mut self, n: usize, most: usize, when: &str) {
        let field = self.fields[n];
        let id = self.id(field);
        // A guest with time for a few only has others for each field.
        let others: Vec<_> =
            self.fields.iter().cycle().skip(n + 1).take(self.fields.len() - 1).collect();
        let others = others.iter().filter(|f| f.updatable && f.is_engines() && f.values.len() > 1);
        for other in others.take(most) {
            self.step += 1;
            let mut value = other.value(self.step);
            if self.now[n].get(other.name) == Some(&value) {
                self.step += 1;
                value = other.value(self.step);
            }
            update(self.node, &id, &other.resources(&value)).success();
            self.now[n].insert(other.name, value.clone());
            let when = format!("{when}: update of {}", other.name);
            other.check(self.node, &id, &value, &self.now[n], &when);
            field.check(self.node, &id, &self.now[n][field.name], &self.now[n], &when);
        }
    }
}

/// A step's value of a field, told to the plugin for a container.
fn updates(life: &Life<'_>, step: usize) -> Vec<Value> {
    life.set().iter().map(|(_, field, id)| field.update(id, &field.value(step))).collect()
}

/// In how many other fields the engine updates each container.
fn others() -> usize {
    std::env::var("NRI_TEST_OTHERS")
        .map_or(usize::MAX, |n| n.parse().expect("NRI_TEST_OTHERS: a number"))
}

#[test]
fn each_field_is_enforced_through_a_life_cycle() {
    let Some(go) = go("fields") else { return };
    for_each_runtime("fields", |runtime| {
        let node = Node::new(runtime);
        configure_classes(&node);
        let fields = there(&node, "fields");
        let now = vec![Values::default(); fields.len()];
        let mut life = Life { node: &node, fields, step: 0, now };
        let resources = requested(&life.fields);

        // Created with a plugin's value.
        node.ctl(&["start"]).success();
        let adjust =
            |field: &Field| json!({"linux": {"resources": field.message(&field.value(1))}});
        let rule =
            |(_, field, id): &(usize, &Field, String)| json!({"id": id, "adjust": adjust(field)});
        let rules: Vec<_> = life.set().iter().map(rule).collect();
        let mut plugin = node.connect("10-go", &go, &json!({"rules": rules}).to_string());
        for (n, field, id) in life.set() {
            if n == 0 {
                let first = node.id("first");
                node.create(&node.bundle(&first).make(), &first).success();
                allow_realtime(&node, &first, 100_000);
            }
            let bundle = node
                .bundle(&id)
                .resources(&resources.to_string())
                .arguments(&["/bin/sleep", "1000"]);
            node.create(&bundle.make(), &id).success();
            for other in life.fields.iter().filter(|f| f.is_engines()) {
                life.now[n].insert(other.name, other.value(0));
            }
            life.now[n].insert(field.name, field.value(1));
        }
        life.check(|_| None, "after create");
        for (_, _, id) in life.set() {
            node.call(&["start", &id]).success();
        }
        life.check(|_| None, "after start");

        // The engine's updates of others.
        for (n, ..) in life.set() {
            life.update_others(n, others(), "after create");
        }

        // A plugin's answer to the engine's update.
        let rule = |(_, field, id): &(usize, &Field, String)| json!({"event": "UpdateContainer", "id": id, "updates": [field.update(id, &field.value(2))]});
        let mut rules: Vec<_> = life.set().iter().map(rule).collect();
        let trigger = node.id("trigger");
        rules
            .push(json!({"event": "CreateContainer", "id": trigger, "updates": updates(&life, 3)}));
        rules.push(json!({"event": "StopContainer", "id": trigger, "updates": updates(&life, 4)}));
        plugin.send(&json!({"config": {"rules": rules}}));
        plugin.journal.wait_for_own("Reconfigured");
        for (n, field, _) in life.set() {
            life.now[n].insert(field.name, field.value(2));
            life.update_others(n, 1, "answered");
        }
        life.check(|_| None, "after all answers");

        // Updates from the creation and the end of another container.
        node.create(&node.bundle(&trigger).make(), &trigger).success();
        life.check(|f| Some(f.value(3)), "updated from a creation");
        node.call(&["delete", "--force", &trigger]).success();
        plugin.journal.wait_for("RemoveContainer", &trigger);
        life.check(|f| Some(f.value(4)), "updated from a stop");

        // By itself.
        plugin.send(&json!({"update": updates(&life, 5)}));
        let done = plugin.journal.wait_for_own("UpdateContainers");
        assert_eq!((&done["failed"], &done["error"]), (&Value::Null, &Value::Null), "{done}");
        life.check(|f| Some(f.value(5)), "updated by itself");
        check_verified(&node);

        // nrid ends, and is killed.
        plugin.stop();
        for (how, end) in [("stopped", false), ("killed", true)] {
            let nrid = node.nrid().expect("it runs");
            if end {
                nrid.signal(rustix::process::Signal::KILL);
                wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
            } else {
                node.ctl(&["stop"]).success();
            }
            life.check(|_| None, &format!("nrid {how}"));
            for (n, ..) in life.set() {
                life.update_others(n, others().min(3), &format!("nrid {how}"));
            }
            check_verified(&node);
        }

        // What the engine requests in the end, it gets.
        for (n, field, id) in life.set() {
            if field.updatable && field.is_engines() && field.values.len() > 1 {
                // What it requested last time would be no request.
                let values = (6..).map(|step| field.value(step));
                let mut new =
                    values.filter(|v| *v != field.value(0) && *v != life.now[n][field.name]);
                let value = new.next().expect("there are three values");
                update(&node, &id, &field.resources(&value)).success();
                field.check(&node, &id, &value, &life.now[n], "the engine's own update");
            }
        }
        check_verified(&node);
    });
}
