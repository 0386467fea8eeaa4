//! One container for each field: a plugin sets the field at the creation. The value stays effective
//! during the life cycle of the container and all updates of other fields, until the engine or a
//! plugin requests another value of the field.

use crate::{
    check_verified,
    field::{Field, Values},
    table::{allow_realtime, available_fields, configure_classes, initial_resources},
    update,
};
use nri_integration::*;
use serde_json::{Value, json};

/// The containers of a node. In each container, a plugin sets one field.
struct Containers<'a> {
    node: &'a Node,
    fields: Vec<&'static Field>,
    /// Argument of [`Field::value`] for the last value that the engine requested in any container.
    step: usize,
    /// Values that must be effective, by the number of the container: those of the plugin's field
    /// and of the fields that the engine set.
    effective: Vec<Values>,
}

impl Containers<'_> {
    /// Id of the container in which a plugin sets the field.
    fn id(&self, field: &Field) -> String {
        self.node.id(&field.name.replace('.', "-"))
    }

    /// Returns, for each field that a plugin sets, the number of its container, the field, and the
    /// id of the container.
    fn fields_of_plugin(&self) -> Vec<(usize, &'static Field, String)> {
        let all = self.fields.iter().enumerate();
        all.filter(|(_, f)| f.settable_by_plugins() && self.is_selected(f))
            .map(|(n, f)| (n, *f, self.id(f)))
            .collect()
    }

    /// Whether `NRI_TEST_FIELDS` is unset or contains the field.
    fn is_selected(&self, field: &Field) -> bool {
        let selected = std::env::var("NRI_TEST_FIELDS");
        selected.map_or(true, |names| names.split(',').any(|name| name == field.name))
    }

    /// Checks that the plugin's field is effective in each container. Where `new_value` returns a
    /// value, the field must have this value from now on.
    fn check(&mut self, new_value: impl Fn(&Field) -> Option<Value>, when: &str) {
        for (n, field, id) in self.fields_of_plugin() {
            if let Some(value) = new_value(field) {
                self.effective[n].insert(field.name, value);
            }
            field.check(self.node, &id, &self.effective[n][field.name], &self.effective[n], when);
        }
    }

    /// Updates up to `limit` other fields of a container as an engine. Checks that each gets its
    /// new value, and that the plugin's field keeps its value.
    fn update_others(&mut self, n: usize, limit: usize, when: &str) {
        let field = self.fields[n];
        let id = self.id(field);
        // The selection begins after the plugin's field, so that a small `limit` selects other
        // fields in each container.
        let others: Vec<_> =
            self.fields.iter().cycle().skip(n + 1).take(self.fields.len() - 1).collect();
        let others =
            others.iter().filter(|f| f.updatable && f.settable_by_engine() && f.values.len() > 1);
        for other in others.take(limit) {
            self.step += 1;
            let mut value = other.value(self.step);
            if self.effective[n].get(other.name) == Some(&value) {
                self.step += 1;
                value = other.value(self.step);
            }
            update(self.node, &id, &other.resources(&value)).success();
            self.effective[n].insert(other.name, value.clone());
            let when = format!("{when}: update of {}", other.name);
            other.check(self.node, &id, &value, &self.effective[n], &when);
            field.check(self.node, &id, &self.effective[n][field.name], &self.effective[n], &when);
        }
    }
}

/// Returns one update for each container, in which the plugin sets its field to the value of
/// [`Field::value`] for `step`.
fn plugin_updates(containers: &Containers<'_>, step: usize) -> Vec<Value> {
    containers
        .fields_of_plugin()
        .iter()
        .map(|(_, field, id)| field.update(id, &field.value(step)))
        .collect()
}

/// Largest number of other fields that the engine updates in each container.
fn limit_of_others() -> usize {
    std::env::var("NRI_TEST_OTHERS")
        .map_or(usize::MAX, |n| n.parse().expect("NRI_TEST_OTHERS is a number"))
}

#[test]
fn each_field_is_enforced_through_a_life_cycle() {
    let Some(go_plugin) = go_plugin("fields") else { return };
    for_each_runtime("fields", |runtime| {
        let node = Node::new(runtime);
        configure_classes(&node);
        let fields = available_fields(&node, "fields");
        let effective = vec![Values::default(); fields.len()];
        let mut containers = Containers { node: &node, fields, step: 0, effective };
        let resources = initial_resources(&containers.fields);

        // The plugin sets the field at the creation.
        node.ctl(&["start"]).success();
        let adjust =
            |field: &Field| json!({"linux": {"resources": field.message(&field.value(1))}});
        let rule =
            |(_, field, id): &(usize, &Field, String)| json!({"id": id, "adjust": adjust(field)});
        let rules: Vec<_> = containers.fields_of_plugin().iter().map(rule).collect();
        let mut plugin = node.connect("10-go", &go_plugin, &json!({"rules": rules}).to_string());
        for (n, field, id) in containers.fields_of_plugin() {
            if n == 0 {
                // This creation creates the parent cgroup, which needs the realtime runtime of all
                // other containers together.
                let first = node.id("first");
                node.create(&node.bundle(&first).make(), &first).success();
                allow_realtime(&node, &first, 100_000);
            }
            let bundle = node
                .bundle(&id)
                .resources(&resources.to_string())
                .arguments(&["/bin/sleep", "1000"]);
            node.create(&bundle.make(), &id).success();
            for other in containers.fields.iter().filter(|f| f.settable_by_engine()) {
                containers.effective[n].insert(other.name, other.value(0));
            }
            containers.effective[n].insert(field.name, field.value(1));
        }
        containers.check(|_| None, "after create");
        for (_, _, id) in containers.fields_of_plugin() {
            node.call(&["start", &id]).success();
        }
        containers.check(|_| None, "after start");

        // The engine updates other fields.
        for (n, ..) in containers.fields_of_plugin() {
            containers.update_others(n, limit_of_others(), "after create");
        }

        // The plugin replies to the engine's update.
        let rule = |(_, field, id): &(usize, &Field, String)| {
            let updates = [field.update(id, &field.value(2))];
            json!({"event": "UpdateContainer", "id": id, "updates": updates})
        };
        let mut rules: Vec<_> = containers.fields_of_plugin().iter().map(rule).collect();
        let trigger = node.id("trigger");
        for (event, step) in [("CreateContainer", 3), ("StopContainer", 4)] {
            let updates = plugin_updates(&containers, step);
            rules.push(json!({"event": event, "id": trigger, "updates": updates}));
        }
        plugin.send(&json!({"config": {"rules": rules}}));
        plugin.journal.wait_for_plugin_event("Reconfigured");
        for (n, field, _) in containers.fields_of_plugin() {
            containers.effective[n].insert(field.name, field.value(2));
            containers.update_others(n, 1, "after a reply");
        }
        containers.check(|_| None, "after all replies");

        // The plugin replies to the creation and to the stop of another container.
        node.create(&node.bundle(&trigger).make(), &trigger).success();
        containers.check(|f| Some(f.value(3)), "after a reply to a creation");
        node.call(&["delete", "--force", &trigger]).success();
        plugin.journal.wait_for("RemoveContainer", &trigger);
        containers.check(|f| Some(f.value(4)), "after a reply to a stop");

        // The plugin sends an unsolicited update.
        plugin.send(&json!({"update": plugin_updates(&containers, 5)}));
        let done = plugin.journal.wait_for_plugin_event("UpdateContainers");
        assert_eq!((&done["failed"], &done["error"]), (&Value::Null, &Value::Null), "{done}");
        containers.check(|f| Some(f.value(5)), "after an unsolicited update");
        check_verified(&node);

        // All values stay effective after nrid is stopped, and after it is killed.
        plugin.stop();
        for (how, is_killed) in [("stopped", false), ("killed", true)] {
            let nrid = node.nrid().expect("nrid runs");
            if is_killed {
                nrid.signal(rustix::process::Signal::KILL);
                wait_until("the end of nrid", || (!nrid.is_alive()).then_some(()));
            } else {
                node.ctl(&["stop"]).success();
            }
            containers.check(|_| None, &format!("after nrid was {how}"));
            // Three fields suffice here, because all fields were updated after the creation.
            for (n, ..) in containers.fields_of_plugin() {
                containers.update_others(
                    n,
                    limit_of_others().min(3),
                    &format!("after nrid was {how}"),
                );
            }
            check_verified(&node);
        }

        // The engine updates the plugin's field.
        for (n, field, id) in containers.fields_of_plugin() {
            if field.updatable && field.settable_by_engine() && field.values.len() > 1 {
                // A new value, because a value that the engine repeats does not count as a request.
                // The engine requested the first value at the creation.
                let values = (6..).map(|step| field.value(step));
                let mut new_values = values
                    .filter(|v| *v != field.value(0) && *v != containers.effective[n][field.name]);
                let value = new_values.next().expect("the field has three values");
                update(&node, &id, &field.resources(&value)).success();
                field.check(
                    &node,
                    &id,
                    &value,
                    &containers.effective[n],
                    "after the engine's update of the field",
                );
            }
        }
        check_verified(&node);
    });
}
