//! For each field, a container in which a plugin sets it: the value stays effective through the
//! life cycle and all updates of other fields, until the engine or a plugin changes it.

use crate::{
    check_verified,
    field::{Field, Values},
    table::{allow_realtime, available_fields, configure_classes, requested},
    update,
};
use nri_integration::*;
use serde_json::{Value, json};

/// Containers of a node; in each a plugin sets one field.
struct Life<'a> {
    node: &'a Node,
    fields: Vec<&'static Field>,
    /// Step of the engine's values, common to all containers.
    step: usize,
    /// Effective values by container: of the plugin's field, and of those that the engine set.
    now: Vec<Values>,
}

impl Life<'_> {
    fn id(&self, field: &Field) -> String {
        self.node.id(&field.name.replace('.', "-"))
    }

    /// Returns the fields that plugins set, with the numbers and ids of their containers.
    fn set(&self) -> Vec<(usize, &'static Field, String)> {
        let all = self.fields.iter().enumerate();
        all.filter(|(_, f)| f.settable_by_plugins() && self.is_selected(f))
            .map(|(n, f)| (n, *f, self.id(f)))
            .collect()
    }

    /// Whether `NRI_TEST_FIELDS` is unset or contains the field.
    fn is_selected(&self, field: &Field) -> bool {
        let only = std::env::var("NRI_TEST_FIELDS");
        only.map_or(true, |only| only.split(',').any(|name| name == field.name))
    }

    /// Checks the plugin's field in each container, after it has got the new value of `value`, if
    /// any.
    fn check(&mut self, value: impl Fn(&Field) -> Option<Value>, when: &str) {
        for (n, field, id) in self.set() {
            if let Some(value) = value(field) {
                self.now[n].insert(field.name, value);
            }
            field.check(self.node, &id, &self.now[n][field.name], &self.now[n], when);
        }
    }

    /// Updates up to `most` other fields of a container as an engine: they must change, and the
    /// plugin's field must not.
    fn update_others(&mut self, n: usize, most: usize, when: &str) {
        let field = self.fields[n];
        let id = self.id(field);
        // Start after the plugin's field, so that a small `most` selects other fields for each
        // container.
        let others: Vec<_> =
            self.fields.iter().cycle().skip(n + 1).take(self.fields.len() - 1).collect();
        let others =
            others.iter().filter(|f| f.updatable && f.settable_by_engine() && f.values.len() > 1);
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

/// Returns updates of the plugin's field of each container to the value of a step.
fn updates(life: &Life<'_>, step: usize) -> Vec<Value> {
    life.set().iter().map(|(_, field, id)| field.update(id, &field.value(step))).collect()
}

/// Number of other fields that the engine updates in each container.
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
        let fields = available_fields(&node, "fields");
        let now = vec![Values::default(); fields.len()];
        let mut life = Life { node: &node, fields, step: 0, now };
        let resources = requested(&life.fields);

        // The plugin sets the field at the creation.
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
            for other in life.fields.iter().filter(|f| f.settable_by_engine()) {
                life.now[n].insert(other.name, other.value(0));
            }
            life.now[n].insert(field.name, field.value(1));
        }
        life.check(|_| None, "after create");
        for (_, _, id) in life.set() {
            node.call(&["start", &id]).success();
        }
        life.check(|_| None, "after start");

        // The engine updates other fields.
        for (n, ..) in life.set() {
            life.update_others(n, others(), "after create");
        }

        // The plugin replies to the engine's update.
        let rule = |(_, field, id): &(usize, &Field, String)| {
            let updates = [field.update(id, &field.value(2))];
            json!({"event": "UpdateContainer", "id": id, "updates": updates})
        };
        let mut rules: Vec<_> = life.set().iter().map(rule).collect();
        let trigger = node.id("trigger");
        rules
            .push(json!({"event": "CreateContainer", "id": trigger, "updates": updates(&life, 3)}));
        rules.push(json!({"event": "StopContainer", "id": trigger, "updates": updates(&life, 4)}));
        plugin.send(&json!({"config": {"rules": rules}}));
        plugin.journal.wait_for_own("Reconfigured");
        for (n, field, _) in life.set() {
            life.now[n].insert(field.name, field.value(2));
            life.update_others(n, 1, "after a reply");
        }
        life.check(|_| None, "after all replies");

        // The plugin replies to the creation and to the stop of another container.
        node.create(&node.bundle(&trigger).make(), &trigger).success();
        life.check(|f| Some(f.value(3)), "after a reply to a creation");
        node.call(&["delete", "--force", &trigger]).success();
        plugin.journal.wait_for("RemoveContainer", &trigger);
        life.check(|f| Some(f.value(4)), "after a reply to a stop");

        // The plugin sends an unsolicited update.
        plugin.send(&json!({"update": updates(&life, 5)}));
        let done = plugin.journal.wait_for_own("UpdateContainers");
        assert_eq!((&done["failed"], &done["error"]), (&Value::Null, &Value::Null), "{done}");
        life.check(|f| Some(f.value(5)), "after an unsolicited update");
        check_verified(&node);

        // nrid is stopped, and killed.
        plugin.stop();
        for (how, kill) in [("stopped", false), ("killed", true)] {
            let nrid = node.nrid().expect("nrid runs");
            if kill {
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

        // The engine updates the plugin's field.
        for (n, field, id) in life.set() {
            if field.updatable && field.settable_by_engine() && field.values.len() > 1 {
                // The value that the engine requested before would be no request.
                let values = (6..).map(|step| field.value(step));
                let mut new =
                    values.filter(|v| *v != field.value(0) && *v != life.now[n][field.name]);
                let value = new.next().expect("the field has three values");
                update(&node, &id, &field.resources(&value)).success();
                field.check(
                    &node,
                    &id,
                    &value,
                    &life.now[n],
                    "after the engine's update of the field",
                );
            }
        }
        check_verified(&node);
    });
}
