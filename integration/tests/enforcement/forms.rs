//! Forms of `update` that engines and administrators use: flags, files, stdin. Each form sets the
//! requested values and keeps the values of plugins.

use crate::{
    check_verified,
    device::device,
    field::{Field, Values, join},
    table::{allow_realtime, available_fields, initial_resources, named},
};
use nri_integration::*;
use serde_json::{Value, json};
use std::fs::File;

/// Flags of `update` of runc and crun, and the fields that they set.
const FLAGS: [(&str, &str); 12] = [
    ("--memory", "memory.limit"),
    ("--memory-reservation", "memory.reservation"),
    ("--memory-swap", "memory.swap"),
    ("--cpu-share", "cpu.shares"),
    ("--cpu-quota", "cpu.quota"),
    ("--cpu-period", "cpu.period"),
    ("--cpu-rt-period", "cpu.realtimePeriod"),
    ("--cpu-rt-runtime", "cpu.realtimeRuntime"),
    ("--cpuset-cpus", "cpu.cpus"),
    ("--cpuset-mems", "cpu.mems"),
    ("--pids-limit", "pids.limit"),
    ("--blkio-weight", "blockIO.weight"),
];

/// A node with a container: the engine requested all fields at the creation, and a plugin set some
/// of them to other values.
struct Case {
    node: Node,
    id: String,
    fields: Vec<&'static Field>,
    journal: Journal,
    /// Values that must be effective.
    values: Values,
    /// Fields that the plugin set.
    set_by_plugin: Vec<&'static Field>,
}

impl Case {
    /// Creates the container; `set_by_plugin` are the names of the fields that the plugin sets.
    fn new(runtime: &Runtime, go_plugin: &Program, set_by_plugin: &[&str]) -> Self {
        let node = Node::new(runtime);
        let fields = available_fields(&node, "forms of update");
        let set_by_plugin: Vec<&Field> =
            fields.iter().copied().filter(|f| set_by_plugin.contains(&f.name)).collect();
        let adjust = join(set_by_plugin.iter().map(|f| f.message(&f.value(1))));
        let rule = json!({"adjust": {"linux": {"resources": adjust}}});
        // The creation of the first container creates the parent cgroup, which needs 20 ms of
        // realtime runtime before the second container can have some.
        let first = node.id("first");
        node.create(&node.bundle(&first).make(), &first).success();
        allow_realtime(&node, &first, 20_000);
        node.ctl(&["stop"]).success();
        let journal = node.launch("10-go", go_plugin, &json!({"rules": [rule]}).to_string());
        let id = node.id("c");
        let bundle = node
            .bundle(&id)
            .resources(&initial_resources(&fields).to_string())
            .arguments(&["/bin/sleep", "1000"]);
        node.create(&bundle.make(), &id).success();
        let mut values: Values = fields.iter().map(|f| (f.name, f.value(0))).collect();
        values.extend(set_by_plugin.iter().map(|f| (f.name, f.value(1))));
        Self { node, id, fields, journal, values, set_by_plugin }
    }

    /// Calls `update` with the arguments; `stdin` are the resources on its standard input.
    fn update(&self, arguments: &[&str], stdin: &Value) -> Ended {
        let mut command = self.node.wrapper();
        command.arg("update").args(arguments).arg(&self.id);
        command.stdin(
            File::open(crate::resources_file(&self.node, &self.id, stdin))
                .expect("the file of resources is readable"),
        );
        self.node.run(command)
    }

    /// Checks that all values are effective in the kernel.
    #[track_caller]
    fn check(&self, when: &str) {
        for field in self.fields.iter().filter(|f| f.settable_by_engine()) {
            field.check(&self.node, &self.id, &self.values[field.name], &self.values, when);
        }
    }
}

#[test]
fn an_update_by_flags_sets_the_requested_fields() {
    let Some(go_plugin) = go_plugin("flags of update") else { return };
    for_each_runtime("flags of update", |runtime| {
        let mut case = Case::new(
            runtime,
            &go_plugin,
            &["cpu.shares", "pids.limit", "hugepageLimits", "unified"],
        );
        case.check("after create");
        for (n, (flag, name)) in FLAGS.iter().enumerate() {
            let Some(field) = case.fields.iter().copied().find(|f| f.name == *name) else {
                continue;
            };
            let value = field.value(2);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // Every second flag has its value in the same argument.
            let inline = format!("{flag}={text}");
            let arguments =
                if n % 2 == 0 { vec![*flag, text.as_str()] } else { vec![inline.as_str()] };
            case.update(&arguments, &Value::Null).success();
            case.values.insert(field.name, value);
            case.check(&format!("after update {flag}"));
        }
        check_verified(&case.node);
    });
}

#[test]
fn an_update_by_a_flag_with_a_unit_sets_the_requested_limit() {
    let Some(go_plugin) = go_plugin("units") else { return };
    for_each_runtime("units", |runtime| {
        let mut case = Case::new(runtime, &go_plugin, &["pids.limit"]);
        for text in ["80m", "83886080"] {
            let bare = case.node.bare(&["update", "--memory", text, &case.node.id("first")]);
            if bare.code != Some(0) {
                limitation(
                    &format!("units: {text} ({})", runtime.name),
                    "the bare runtime does not accept the form",
                );
                continue;
            }
            case.update(&["--memory", text], &Value::Null).success();
            case.values.insert("memory.limit", json!(80 << 20));
            case.check(&format!("after update --memory {text}"));
        }
    });
}

/// runc reads integers in the notation of Go, and crun accepts abbreviated flags. The value that
/// the bare runtime sets is correct: plugins must be notified of it, and the next update must keep
/// it.
#[test]
fn an_update_sets_the_value_that_the_runtime_reads_and_the_next_update_keeps_it() {
    let Some(go_plugin) = go_plugin("arguments as runtimes read them") else { return };
    for_each_runtime("arguments as runtimes read them", |runtime| {
        let mut case = Case::new(runtime, &go_plugin, &["cpu.shares"]);
        let (pids, memory) = (named("pids.limit"), named("memory.reservation"));
        let forms: [&[&str]; 6] = [
            &["--pids-limit", "017"],
            &["--pids-limit=0x21"],
            &["--pids-limit", "0b101010"],
            &["--pids-limit", "1_00"],
            &["--pids=38"],
            &["--pids-lim", "39"],
        ];
        for (step, form) in forms.into_iter().enumerate() {
            let first = case.node.id("first");
            let bare = case.node.bare(&[&["update"], form, &[&*first]].concat());
            if bare.code != Some(0) {
                limitation(
                    &format!("arguments as runtimes read them: {form:?} ({})", runtime.name),
                    "the bare runtime does not accept the form",
                );
                continue;
            }
            let read = pids.read(&case.node, &first).expect("the container has pids.max");
            let value: Value = serde_json::from_str(&read).expect("the limit is a number");
            case.update(form, &Value::Null).success();
            case.values.insert(pids.name, value.clone());
            case.check(&format!("after update {form:?}"));
            let events = case.journal.entries_about(&case.id);
            let last = events.iter().rfind(|e| e["event"] == "UpdateContainer");
            let notified = last.and_then(|e| pids.value_in(&e["resources"]));
            assert_eq!(notified, Some(value), "{form:?} ({})", runtime.name);
            // This update passes all effective resources to the runtime.
            let limit = memory.value(1 + step);
            case.update(&["--memory-reservation", &limit.to_string()], &Value::Null).success();
            case.values.insert(memory.name, limit);
            case.check(&format!("after the update that follows {form:?}"));
        }
        check_verified(&case.node);
    });
}

#[test]
fn an_update_by_a_resources_file_sets_the_requested_fields() {
    let Some(go_plugin) = go_plugin("resources files of update") else { return };
    for_each_runtime("resources files of update", |runtime| {
        let mut case = Case::new(
            runtime,
            &go_plugin,
            &["cpu.shares", "cpu.cpus", "hugepageLimits", "unified"],
        );
        let file = case.node.path("resources.json").to_str().expect("UTF-8").to_owned();
        let inline = format!("--resources={file}");
        let short = format!("-r={file}");
        let forms: [&[&str]; 8] = [
            &["--resources", &file],
            &[&inline],
            &["-r", &file],
            &[&short],
            &["--resources", "-"],
            &["--resources=-"],
            &["-r", "-"],
            &["--resources", "/dev/stdin"],
        ];
        for (n, form) in forms.iter().enumerate() {
            let resources =
                json!({"pids": {"limit": 200 + n}, "memory": {"reservation": (8 + n) << 20}});
            std::fs::write(&file, resources.to_string()).expect("the test directory is writable");
            if !bare_accepts(&case, form, &resources) {
                limitation(
                    &format!("resources files of update: {form:?} ({})", runtime.name),
                    "the bare runtime does not accept the form",
                );
                continue;
            }
            case.update(form, &resources).success();
            case.values.insert("pids.limit", json!(200 + n));
            case.values.insert("memory.reservation", json!((8 + n) << 20));
            case.check(&format!("after update {form:?}"));
        }
        check_verified(&case.node);
    });
}

/// Whether the `update` of the bare runtime accepts this form.
fn bare_accepts(case: &Case, form: &[&str], resources: &Value) -> bool {
    let mut command = case.node.runtime().command(&case.node.root());
    command.arg("update").args(form).arg(case.node.id("first"));
    command.stdin(
        File::open(crate::resources_file(&case.node, "bare", resources))
            .expect("the file of resources is readable"),
    );
    case.node.run(command).code == Some(0)
}

#[test]
fn an_update_that_repeats_all_resources_keeps_what_plugins_set() {
    let Some(go_plugin) = go_plugin("repeated resources") else { return };
    for_each_runtime("repeated resources", |runtime| {
        let mut case = Case::new(
            runtime,
            &go_plugin,
            &["cpu.shares", "cpu.cpus", "pids.limit", "hugepageLimits", "unified"],
        );
        let mut resources = initial_resources(&case.fields);
        resources["devices"] = json!([
            {"allow": false, "access": "rwm"},
            {"allow": true, "type": "c", "major": 1, "minor": 3, "access": "rwm"},
        ]);
        for (step, name) in ["memory.limit", "memory.reservation", "cpu.quota", "memory.limit"]
            .into_iter()
            .enumerate()
        {
            let field = named(name);
            let value = field.value(2 + step);
            merge(&mut resources, &field.resources(&value));
            case.update(&["--resources=-"], &resources).success();
            case.values.insert(field.name, value.clone());
            case.check(&format!("after an update of {name} among all resources"));
            let events = case.journal.entries_about(&case.id);
            let last = events
                .iter()
                .rfind(|e| e["event"] == "UpdateContainer")
                .expect("the plugin received the update");
            let requested: Vec<_> = case
                .fields
                .iter()
                .filter(|f| f.value_in(&last["resources"]).is_some())
                .map(|f| f.name)
                .collect();
            assert_eq!(
                requested,
                [name],
                "the engine's update requests fields that it did not change: {}",
                last["resources"]
            );
        }
        // The same resources again: the engine requests nothing, so nothing changes.
        case.update(&["--resources", "-"], &resources).success();
        case.check("after a repeated update");
        // A new value of the engine is effective, even if a plugin has set the field.
        for field in
            case.set_by_plugin.clone().into_iter().filter(|f| f.updatable && f.settable_by_engine())
        {
            let value = field.value(2);
            merge(&mut resources, &field.resources(&value));
            case.update(&["--resources", "-"], &resources).success();
            case.values.insert(field.name, value);
            case.check(&format!("after a new value of {} by the engine", field.name));
        }
        check_verified(&case.node);
    });
}

#[test]
fn an_update_with_nulls_changes_only_fields_with_a_value() {
    let Some(go_plugin) = go_plugin("nulls") else { return };
    for_each_runtime("nulls", |runtime| {
        // Bare runc crashes if a group of the resources is null. With the wrapper, the update must
        // succeed.
        let mut case = Case::new(runtime, &go_plugin, &["cpu.shares", "pids.limit"]);
        let resources = json!({
            "cpu": null, "pids": null, "blockIO": null,
            "memory": {"limit": 80 << 20, "swap": null},
        });
        case.update(&["--resources", "-"], &resources).success();
        case.values.insert("memory.limit", json!(80 << 20));
        case.check("after an update with nulls");
    });
}

#[test]
fn an_update_of_a_field_without_a_name_in_nri_is_as_with_the_bare_runtime() {
    let Some(go_plugin) = go_plugin("throttles") else { return };
    let Some((_, device)) = device() else { return limitation("throttles", "there is no disk") };
    for_each_runtime("throttles", |runtime| {
        let case = Case::new(runtime, &go_plugin, &["pids.limit"]);
        let (first, name) = (case.node.id("first"), "blkio.throttle.read_bps_device");
        let (major, minor) = device.split_once(':').expect("device numbers");
        let text = format!(
            r#"{{"throttleReadBpsDevice":[{{"major":{major},"minor":{minor},"rate":7340032}}]}}"#
        );
        let block_io: Value = serde_json::from_str(&text).expect("JSON");
        let resources = json!({"blockIO": block_io});
        if !bare_accepts(&case, &["--resources=-"], &resources) {
            return limitation("throttles", "the bare runtime cannot set them");
        }
        case.update(&["--resources=-"], &resources).success();
        let read = |id: &str| case.node.try_cgroup_file(id, "blkio", name, "io.max").ok();
        assert_eq!(read(&case.id), read(&first), "{}", runtime.name);
        case.check("after an update of throttles");
    });
}

/// As at a creation, a container whose memory a plugin limits cannot swap.
#[test]
fn a_limit_of_memory_in_a_reply_leaves_none_of_the_swap_that_the_engine_requests() {
    let Some(go_plugin) = go_plugin("memory in a reply") else { return };
    for_each_runtime("memory in a reply", |runtime| {
        let node = Node::new(runtime);
        let (id, limit) = (node.id("c"), named("memory.limit"));
        let updates = [limit.update(&id, &json!(128 << 20))];
        let rule = json!({"event": "UpdateContainer", "updates": updates});
        node.launch("10-go", &go_plugin, &json!({"rules": [rule]}).to_string());
        let memory = json!({"memory": {"limit": 64 << 20, "swap": 128 << 20}}).to_string();
        node.create(&node.bundle(&id).resources(&memory).make(), &id).success();
        if named("memory.swap").read(&node, &id).is_none() {
            return limitation("memory in a reply", "the kernel does not limit swap");
        }
        node.call(&["update", "--memory", "1073741824", "--memory-swap", "2147483648", &id])
            .success();
        let both = json!(128 << 20);
        let values = [("memory.limit", both.clone())].into();
        for field in [limit, named("memory.swap")] {
            field.check(&node, &id, &both, &values, "after the reply");
        }
        check_verified(&node);
        let verified = node.ctl(&["verify", &id]);
        assert!(verified.out().contains("10-go (memory.limit)"), "{}", verified.out());
    });
}

/// Sets the fields of `part` in `resources`.
fn merge(resources: &mut Value, part: &Value) {
    for (group, fields) in part.as_object().into_iter().flatten() {
        match fields.as_object() {
            Some(fields) => {
                for (name, value) in fields {
                    resources[group][name] = value.clone();
                }
            }
            None => resources[group] = fields.clone(),
        }
    }
}
