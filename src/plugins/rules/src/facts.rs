//! What expressions know of a container: the variables and their values.

use crate::{
    expression::{EvaluationError, FUNCTIONS},
    field::{Group, environment},
    prepared::add_functions,
    rule::RuleSet,
    shared::SharedMap,
};
use cel::{
    Context,
    common::{
        types::{CelBool, CelInt, CelList, CelMap, CelMapKey, CelString, CelUInt},
        value::Val,
    },
};
use nri_api::{Access, RESOURCE_FIELDS, proto::*};
use serde::Deserialize;
use std::{collections::HashMap, time::Instant};

/// A value of the interpreter, which may borrow texts of the container.
pub(crate) type Fact<'a> = Box<dyn Val + 'a>;

/// Prefix of the annotations that only the runtime sets: what the protocol has no fields for.
pub(crate) const PREFIX: &str = "facts.nri-container-runtime/";

/// The variables that come from such annotations.
pub(crate) const OPTIONAL: [&str; 8] = [
    "capabilities",
    "device_access",
    "engine",
    "host_namespaces",
    "mount_sources",
    "privileged",
    "seccomp",
    "unprotected_paths",
];

/// Largest length in bytes of a text that rules read: a macro goes through its parts without a look
/// at the time. An argument or variable of more than half of it starts no process.
const MAX_TEXT: usize = 256 << 10;

/// Annotation by which `nrid` says that it could not read what the engine knows of a container.
const INCOMPLETE: &str = "facts.nri-container-runtime/incomplete";

/// Annotation by which `nrid` names the facts that it could not find out, separated by commas.
const UNKNOWN: &str = "facts.nri-container-runtime/unknown";

/// Whether a fact is missing because it could not be found out of a container.
pub(crate) fn is_unknown(fact: &str, container: &Container) -> bool {
    let unknown = container.annotations.get(UNKNOWN);
    unknown.is_some_and(|names| elements(names).any(|name| name == fact))
}

/// Returns the error if a variable that the rules use has a longer text than rules read, or is
/// unknown: what an engine could not tell must not count as what a container does not have.
pub(crate) fn unreadable(
    pod: &PodSandbox,
    container: &Container,
    rules: &RuleSet,
) -> Option<EvaluationError> {
    let of_engine = ["container", "image", "labels", "pod"];
    if container.annotations.contains_key(INCOMPLETE)
        && let Some(name) = of_engine.into_iter().find(|name| rules.variables.contains(*name))
    {
        let error = format!("{name} is unknown: names and labels could not be read of the engine");
        return Some(EvaluationError::Failed(error));
    }
    let is_long = |text: &String| text.len() > MAX_TEXT;
    let has_long = |texts: &HashMap<String, String>| {
        let own = texts.iter().filter(|(key, _)| !key.starts_with(PREFIX));
        own.flat_map(|(key, text)| [key, text]).any(is_long)
    };
    let variables = [
        ("annotations", has_long(&container.annotations)),
        ("command", container.args.iter().any(is_long)),
        ("env", container.env.iter().any(is_long)),
        ("labels", has_long(&container.labels)),
        ("pod", has_long(&pod.labels) || has_long(&pod.annotations)),
    ];
    let mut long = variables.into_iter().filter(|(_, is_long)| *is_long).map(|(name, _)| name);
    let variable = long.find(|name| rules.variables.contains(*name))?;
    let error = format!("{variable} has a text of more than {MAX_TEXT} bytes");
    Some(EvaluationError::Failed(error))
}

/// Returns the functions, and the variables of a container that the rules use. After `deadline`,
/// evaluations fail.
pub(crate) fn context<'a>(
    pod: &'a PodSandbox,
    container: &'a Container,
    rules: &RuleSet,
    deadline: Instant,
) -> Context<'a, 'a> {
    let mut context = Context::with_env(FUNCTIONS.clone());
    add_functions(&mut context, rules.patterns.clone(), deadline);
    let fact = |name: &str| container.annotations.get(&format!("{PREFIX}{name}"));
    let mut add = |name: &str, value: &dyn Fn() -> Option<Fact<'a>>| {
        if rules.variables.contains(name)
            && let Some(value) = value()
        {
            context.add_variable_as_val(name, value);
        }
    };
    add("annotations", &|| Some(texts(&container.annotations)));
    add("capabilities", &|| Some(list(elements(fact("capabilities")?).map(text))));
    add("command", &|| Some(all_texts(&container.args)));
    add("container", &|| Some(map([("id", text(&container.id)), ("name", text(&container.name))])));
    add("device_access", &|| {
        let rules = elements(fact("device_access")?).map(device_access);
        Some(list(rules.collect::<Option<Vec<_>>>()?.into_iter()))
    });
    add("devices", &|| Some(list(container.linux.devices.iter().map(device))));
    add("engine", &|| Some(text(fact("engine")?)));
    add("env", &|| Some(map(environment(&container.env).map(|(name, value)| (name, text(value))))));
    add("host_namespaces", &|| Some(list(elements(fact("host_namespaces")?).map(text))));
    add("hooks", &|| Some(list(hooks(container).map(|hook| text(&hook.path)))));
    add("image", &|| Some(text(&container.image.name)));
    add("labels", &|| Some(texts(&container.labels)));
    add("mount_sources", &|| {
        let sources: Vec<MountSource> = serde_json::from_str(fact("mount_sources")?).ok()?;
        Some(list(sources.into_iter().map(mount_source)))
    });
    add("mounts", &|| Some(mounts(&container.mounts)));
    add("pod", &|| {
        Some(map([
            ("id", text(&pod.id)),
            ("name", text(&pod.name)),
            ("namespace", text(&pod.namespace)),
            ("uid", text(&pod.uid)),
            ("labels", texts(&pod.labels)),
            ("annotations", texts(&pod.annotations)),
        ]))
    });
    add("privileged", &|| Some(Box::new(CelBool::from(fact("privileged")? == "true"))));
    add("requested", &|| Some(requested(container)));
    add("seccomp", &|| Some(text(fact("seccomp")?)));
    add("unprotected_paths", &|| Some(list(elements(fact("unprotected_paths")?).map(text))));
    add("user", &|| {
        let user = &container.user;
        let groups = user.additional_gids.iter().map(|gid| number(*gid));
        let ids = [("uid", number(user.uid)), ("gid", number(user.gid))];
        Some(map(ids.into_iter().chain([("groups", list(groups))])))
    });
    context
}

/// Returns the hooks of a container.
fn hooks(container: &Container) -> impl Iterator<Item = &Hook> {
    let hooks = &container.hooks;
    let before = hooks.prestart.iter().chain(&hooks.create_runtime).chain(&hooks.create_container);
    before.chain(&hooks.start_container).chain(&hooks.poststart).chain(&hooks.poststop)
}

/// What a mount is made of, as `nrid` gives it: an element of the fact `mount_sources`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[allow(missing_docs)]
pub(crate) struct MountSource {
    pub destination: String,
    /// As the engine has it.
    pub source: String,
    /// Path on the host without symbolic links and bind mounts; a device or a server.
    pub real: String,
    pub writable: bool,
    /// Option for the propagation of mounts, such as `rprivate`, or empty.
    pub propagation: String,
    /// `bind`, `overlay`, `device` or `root`.
    pub kind: String,
    /// `directory`, `file`, `socket`, `block`, `character` or `fifo`; empty if it is unknown.
    #[serde(rename = "type", default)]
    pub file_type: String,
}

fn mount_source(source: MountSource) -> Fact<'static> {
    let text = |text: String| -> Fact<'static> { Box::new(CelString::from(text)) };
    let writable: Fact<'static> = Box::new(CelBool::from(source.writable));
    map([
        ("destination", text(source.destination)),
        ("source", text(source.source)),
        ("real", text(source.real)),
        ("writable", writable),
        ("propagation", text(source.propagation)),
        ("kind", text(source.kind)),
        ("type", text(source.file_type)),
    ])
}

/// Returns a rule for devices, such as `c 1:3 rwm`, as the value of an expression; `None` if it is
/// none.
fn device_access(rule: &str) -> Option<Fact<'_>> {
    let mut words = rule.split(' ');
    let (kind, numbers, access) = (words.next()?, words.next()?, words.next()?);
    let (major, minor) = numbers.split_once(':')?;
    let number = |text: &str| if text == "*" { Some(-1) } else { text.parse().ok() };
    Some(map([
        ("type", text(kind)),
        ("major", integer(number(major)?)),
        ("minor", integer(number(minor)?)),
        ("access", text(access)),
    ]))
}

/// Returns the elements of a fact that is a list.
fn elements(fact: &str) -> impl Iterator<Item = &str> {
    fact.split(',').filter(|element| !element.is_empty())
}

/// Returns an entry of a list of names and values, as [`crate::expression::ENTRY`].
pub(crate) fn named<'a>(name: &'a str, value: &'a str) -> Fact<'a> {
    map([("name", text(name)), ("value", text(value))])
}

/// Returns the entries of a group, by key, as values of expressions. Their order is that of keys.
pub(crate) fn entries(group: Group, container: &Container) -> Vec<(String, Fact<'_>)> {
    let named = |key, value| (str::to_owned(key), self::named(key, value));
    let mut entries: Vec<(String, Fact<'_>)> = match group {
        Group::Env => {
            let variables: HashMap<_, _> = environment(&container.env).collect();
            variables.into_iter().map(|(key, value)| named(key, value)).collect()
        }
        Group::Sysctl => container.linux.sysctl.iter().map(|(k, v)| named(k, v)).collect(),
        Group::Annotations => container.annotations.iter().map(|(k, v)| named(k, v)).collect(),
        Group::Mounts => {
            container.mounts.iter().map(|m| (m.destination.clone(), mount(m))).collect()
        }
        Group::Devices => {
            container.linux.devices.iter().map(|d| (d.path.clone(), device(d))).collect()
        }
        Group::Hugepages | Group::Unified | Group::Rlimits | Group::Cdi => Vec::new(),
    };
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    entries
}

/// Returns mounts as the value of an expression.
fn mounts(mounts: &[Mount]) -> Fact<'_> {
    list(mounts.iter().map(mount))
}

/// Returns a mount as the value of an expression.
pub(crate) fn mount(mount: &Mount) -> Fact<'_> {
    map([
        ("source", text(&mount.source)),
        ("destination", text(&mount.destination)),
        ("type", text(&mount.type_)),
        ("options", all_texts(&mount.options)),
    ])
}

/// Returns a device node as the value of an expression.
pub(crate) fn device(device: &LinuxDevice) -> Fact<'_> {
    map([
        ("path", text(&device.path)),
        ("type", text(&device.type_)),
        ("major", integer(device.major)),
        ("minor", integer(device.minor)),
    ])
}

/// Returns the requested resources: a map for each controller, of fields that have a value.
fn requested(container: &Container) -> Fact<'_> {
    let mut all: HashMap<&str, Fact<'_>> = HashMap::new();
    let mut groups: HashMap<&str, HashMap<&str, Fact<'_>>> = HashMap::new();
    let resources = &container.linux.resources;
    for field in RESOURCE_FIELDS {
        let value = match &field.access {
            Access::Int64(a) => (a.get)(resources).map(integer),
            Access::UInt64(a) => (a.get)(resources).map(number),
            Access::Bool(a) => (a.get)(resources).map(|value| Box::new(CelBool::from(value)) as _),
            Access::Text(a) => {
                (a.get)(resources).map(|value| Box::new(CelString::from(value)) as _)
            }
            Access::Entries(_) | Access::OciOnly => None,
        };
        let Some(value) = value else { continue };
        match field.name.split_once('.') {
            Some((group, name)) => _ = groups.entry(group).or_default().insert(name, value),
            None => _ = all.insert(field.name, value),
        }
    }
    all.extend(groups.into_iter().map(|(group, fields)| (group, map(fields))));
    if let Some(score) = container.linux.oom_score_adj.as_ref() {
        all.insert("oom_score_adj", integer(score.value));
    }
    map(all)
}

/// Returns a number; one that is too large for CEL's usual type has the type for large ones.
fn number(number: impl Into<u64>) -> Fact<'static> {
    let number = number.into();
    match i64::try_from(number) {
        Ok(number) => integer(number),
        Err(_) => Box::new(CelUInt::from(number)),
    }
}

fn integer(number: i64) -> Fact<'static> {
    Box::new(CelInt::from(number))
}

fn text(text: &str) -> Fact<'_> {
    Box::new(CelString::from(text))
}

fn all_texts(texts: &[String]) -> Fact<'_> {
    list(texts.iter().map(|value| text(value)))
}

fn list<'a>(elements: impl Iterator<Item = Fact<'a>>) -> Fact<'a> {
    Box::new(CelList::from(elements.collect::<Vec<_>>()))
}

fn texts(entries: &HashMap<String, String>) -> Fact<'_> {
    map(entries.iter().map(|(key, value)| (key.as_str(), text(value))))
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, Fact<'a>)>) -> Fact<'a> {
    let entries = entries.into_iter().map(|(key, value)| (CelMapKey::from(key), value));
    Box::new(SharedMap::from(CelMap::from(entries.collect::<HashMap<_, _>>())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{Expression, tests::context};

    #[test]
    fn facts_are_values_of_their_types_and_broken_ones_are_none() {
        let fact = |name: &str, value: &str| {
            let annotations = [(format!("{PREFIX}{name}"), value.to_owned())].into();
            Container { annotations, ..Container::default() }
        };
        let is = |container: &Container, condition: &str| {
            let text = format!("rules: [{{name: a, match: {condition:?}, refuse: x}}]");
            let rules = crate::load::load(&text).unwrap();
            let deadline = Instant::now() + std::time::Duration::from_secs(60);
            let pod = PodSandbox::default();
            let context = super::context(&pod, container, &rules, deadline);
            Expression::parse(condition).unwrap().is_true(&context)
        };
        let source = r#"[{"destination": "/data", "source": "/link", "real": "/etc",
            "writable": true, "propagation": "rslave", "kind": "bind", "type": "directory",
            "later": 1}]"#;
        for (name, value, condition) in [
            (
                "device_access",
                "c 1:3 rwm,b *:* r",
                "device_access == [{'type': 'c', 'major': 1, 'minor': 3, 'access': 'rwm'}, \
                 {'type': 'b', 'major': -1, 'minor': -1, 'access': 'r'}]",
            ),
            ("device_access", "", "device_access == []"),
            ("host_namespaces", "pid,uts", "host_namespaces == ['pid', 'uts']"),
            ("host_namespaces", "", "host_namespaces == []"),
            ("seccomp", "unfiltered", "seccomp == 'unfiltered'"),
            ("unprotected_paths", "/proc/sys", "unprotected_paths == ['/proc/sys']"),
            ("unprotected_paths", "", "unprotected_paths.size() == 0"),
            (
                "mount_sources",
                source,
                "mount_sources[0].real == '/etc' && mount_sources[0].writable \
                 && mount_sources[0].propagation == 'rslave'",
            ),
            ("mount_sources", "[]", "mount_sources.all(m, m.kind == 'device')"),
            (
                "mount_sources",
                r#"[{"destination": "/", "source": "h:/", "real": "h:/", "writable": true,
                     "kind": "device", "propagation": "rslave"}]"#,
                "mount_sources[0].type == ''",
            ),
        ] {
            assert_eq!(is(&fact(name, value), condition), Ok(true), "{condition}");
        }
        for (name, value) in [
            ("device_access", "c 1:3"),
            ("device_access", "c 1:x rwm"),
            ("mount_sources", "{}"),
            ("mount_sources", r#"[{"real": "/etc"}]"#),
        ] {
            let missing = is(&fact(name, value), &format!("{name}.size() > 5"));
            let expected = EvaluationError::NoVariable(name.to_owned());
            assert_eq!(missing, Err(expected), "{value}");
        }
    }

    /// 18 MB of labels, which Docker keeps, let a container have no name.
    #[test]
    fn what_an_engine_could_not_tell_is_not_missing() {
        let of = |condition: &str, is_complete: bool| {
            let text = format!("rules: [{{name: a, match: {condition:?}, refuse: x}}]");
            let rules = crate::load::load(&text).unwrap();
            let annotations = (!is_complete).then(|| (INCOMPLETE.to_owned(), "true".to_owned()));
            let annotations = annotations.into_iter().collect();
            let container = Container { annotations, ..Container::default() };
            unreadable(&PodSandbox::default(), &container, &rules).is_some()
        };
        for condition in ["container.name == 'a'", "'a' in labels", "image == 'a'"] {
            assert!(of(condition, false) && !of(condition, true), "{condition}");
        }
        assert!(!of("'A' in env", false));
    }

    /// A variable of megabytes kept evaluations busy for minutes.
    #[test]
    fn a_text_that_is_too_long_is_found_if_a_rule_reads_it() {
        let rules = |condition: &str| {
            let text = format!("rules: [{{name: a, match: {condition:?}, refuse: x}}]");
            crate::load::load(&text).unwrap()
        };
        let container = |length: usize| Container {
            env: vec!["A=b".into(), "x".repeat(length)],
            annotations: [(format!("{PREFIX}mount_sources"), "x".repeat(MAX_TEXT + 1))].into(),
            ..Container::default()
        };
        let long = |length: usize, condition: &str| {
            unreadable(&PodSandbox::default(), &container(length), &rules(condition))
        };
        let condition = "'A' in env && 'a' in annotations";
        let error = long(MAX_TEXT + 1, condition).unwrap().to_string();
        assert_eq!(error, "env has a text of more than 262144 bytes");
        assert_eq!(long(MAX_TEXT, condition), None);
        assert_eq!(long(MAX_TEXT + 1, "'a' in labels"), None);
    }

    #[test]
    fn expressions_see_mounts_as_maps_of_the_interpreter() {
        let mount = Mount { source: "/a".into(), options: vec!["ro".into()], ..Default::default() };
        let mut context = context();
        context.add_variable_as_val("container", super::mount(&mount));
        context.add_variable_as_val("mounts", super::mounts(std::slice::from_ref(&mount)));
        let literal = "{'source': '/a', 'destination': '', 'type': '', 'options': ['ro']}";
        for condition in [
            "mounts[0] == container && container in mounts && mounts.size() == 1",
            &format!("mounts == [{literal}] && [{literal}] == mounts && {literal} in mounts"),
            "mounts.map(m, m)[0].source == '/a' && [mounts[0]][0].options == ['ro']",
            "mounts.exists(m, m['source'].startsWith('/') && 'ro' in m.options)",
            "has(mounts[0].source) && !has(mounts[0].name) && 'type' in mounts[0]",
            "mounts[0].all(name, name.size() < 12) && size(mounts[0]) == 4",
            "mounts[?0].?source.orValue('') == '/a' && !mounts[?1].hasValue()",
            "mounts.filter(m, m.source == '/b') == [] && type(mounts[0]) == type({})",
        ] {
            assert_eq!(
                Expression::parse(condition).unwrap().is_true(&context),
                Ok(true),
                "{condition}"
            );
        }
        let whole = Expression::parse("mounts.filter(m, m.source == '/a')[0]").unwrap();
        let value = whole.evaluate(&context).unwrap();
        let expected = Expression::parse(literal).unwrap().evaluate(&context).unwrap();
        assert_eq!(value, expected);
        let key = Expression::parse("{mounts.map(m, m)[0]: 1} == {}").unwrap().is_true(&context);
        let error = key.unwrap_err().to_string();
        assert!(error.starts_with("Unable to use value"), "{error}");
    }
}
