//! What expressions know of a container: the variables and their values.

use crate::{expression::FUNCTIONS, field::environment, prepared::add_functions, rule::RuleSet};
use cel::{Context, Value, objects::Map};
use nri_api::{Access, RESOURCE_FIELDS, proto::*};
use std::{collections::HashMap, time::Instant};

/// Prefix of the annotations that only the runtime sets: what the protocol has no fields for.
pub(crate) const PREFIX: &str = "facts.nri-container-runtime/";

/// The variables that come from such annotations.
pub(crate) const OPTIONAL: [&str; 3] = ["capabilities", "engine", "privileged"];

/// Returns the functions, and the variables of a container that the rules use. After `deadline`,
/// evaluations fail.
pub(crate) fn context(
    pod: &PodSandbox,
    container: &Container,
    rules: &RuleSet,
    deadline: Instant,
) -> Context<'static, 'static> {
    let mut context = Context::with_env(FUNCTIONS.clone());
    add_functions(&mut context, rules.patterns.clone(), deadline);
    let fact = |name: &str| container.annotations.get(&format!("{PREFIX}{name}"));
    let mut add = |name: &str, value: &dyn Fn() -> Option<Value>| {
        if rules.variables.contains(name)
            && let Some(value) = value()
        {
            context.add_variable_from_value(name, value);
        }
    };
    add("annotations", &|| Some(texts(&container.annotations)));
    add("capabilities", &|| {
        let names = fact("capabilities")?.split(',').filter(|name| !name.is_empty());
        Some(names.map(str::to_owned).collect::<Vec<_>>().into())
    });
    add("command", &|| Some(container.args.clone().into()));
    add("container", &|| {
        Some(map([("id", container.id.clone().into()), ("name", container.name.clone().into())]))
    });
    add("devices", &|| Some(container.linux.devices.iter().map(device).collect::<Vec<_>>().into()));
    add("engine", &|| Some(fact("engine")?.as_str().into()));
    add("env", &|| Some(texts(&environment(&container.env))));
    add("image", &|| Some(container.image.name.clone().into()));
    add("labels", &|| Some(texts(&container.labels)));
    add("mounts", &|| Some(container.mounts.iter().map(mount).collect::<Vec<_>>().into()));
    add("pod", &|| {
        Some(map([
            ("id", pod.id.clone().into()),
            ("name", pod.name.clone().into()),
            ("namespace", pod.namespace.clone().into()),
            ("uid", pod.uid.clone().into()),
            ("labels", texts(&pod.labels)),
            ("annotations", texts(&pod.annotations)),
        ]))
    });
    add("privileged", &|| Some(Value::Bool(fact("privileged")? == "true")));
    add("requested", &|| Some(requested(container)));
    add("user", &|| {
        let user = &container.user;
        let groups: Vec<Value> = user.additional_gids.iter().map(|gid| number(*gid)).collect();
        let ids = [("uid", number(user.uid)), ("gid", number(user.gid))];
        Some(map(ids.into_iter().chain([("groups", groups.into())])))
    });
    context
}

/// Returns an entry of a list of names and values, as [`crate::expression::ENTRY`].
pub(crate) fn named(name: &str, value: &str) -> Value {
    map([("name", name.into()), ("value", value.into())])
}

/// Returns a mount as the value of an expression.
pub(crate) fn mount(mount: &Mount) -> Value {
    map([
        ("source", mount.source.clone().into()),
        ("destination", mount.destination.clone().into()),
        ("type", mount.type_.clone().into()),
        ("options", mount.options.clone().into()),
    ])
}

/// Returns a device node as the value of an expression.
pub(crate) fn device(device: &LinuxDevice) -> Value {
    map([
        ("path", device.path.clone().into()),
        ("type", device.type_.clone().into()),
        ("major", Value::Int(device.major)),
        ("minor", Value::Int(device.minor)),
    ])
}

/// Returns the requested resources: a map for each controller, of fields that have a value.
fn requested(container: &Container) -> Value {
    let mut all: HashMap<String, Value> = HashMap::new();
    let mut groups: HashMap<&str, HashMap<String, Value>> = HashMap::new();
    let resources = &container.linux.resources;
    for field in RESOURCE_FIELDS {
        let value = match &field.access {
            Access::Int64(a) => (a.get)(resources).map(Value::Int),
            Access::UInt64(a) => (a.get)(resources).map(number),
            Access::Bool(a) => (a.get)(resources).map(Value::Bool),
            Access::Text(a) => (a.get)(resources).map(Value::from),
            Access::Entries(_) | Access::OciOnly => None,
        };
        let Some(value) = value else { continue };
        match field.name.split_once('.') {
            Some((group, name)) => {
                groups.entry(group).or_default().insert(name.to_owned(), value);
            }
            None => _ = all.insert(field.name.to_owned(), value),
        }
    }
    all.extend(groups.into_iter().map(|(group, fields)| (group.to_owned(), fields.into())));
    if let Some(score) = container.linux.oom_score_adj.as_ref() {
        all.insert("oom_score_adj".to_owned(), Value::Int(score.value));
    }
    all.into()
}

/// Returns a number; one that is too large for CEL's usual type has the type for large ones.
fn number(number: impl Into<u64>) -> Value {
    let number = number.into();
    i64::try_from(number).map_or(Value::UInt(number), Value::Int)
}

fn texts(map: &HashMap<String, String>) -> Value {
    let entries = map.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())));
    entries.collect::<HashMap<_, _>>().into()
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value));
    Value::Map(Map::from(entries.collect::<HashMap<String, Value>>()))
}
