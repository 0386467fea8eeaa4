//! Random files and containers: no panic, the same result twice, and no refusal by an expression
//! that fails where the file has no finding.

use crate::{
    changes::Changes,
    decide::{decide, limit},
    findings::{Given, findings},
    load::load,
    refusal::Refusal,
    stack::{Progress, with_stack},
    unified::effective,
};
use nri_api::opt;
use nri_plugin::proto::{Container, LinuxDevice, LinuxMemory, LinuxResources, Mount, PodSandbox};
use proptest::{collection::vec, option, prelude::*, sample::select, test_runner::Config};
use std::time::{Duration, Instant};

/// Number of random files, each with a random container.
const CASES: u32 = 10_000;

/// Conditions, right and wrong.
const CONDITIONS: &[&str] = &[
    "'true'",
    "privileged",
    "'!privileged || engine == \"docker\"'",
    "'image.startsWith(\"a\")'",
    "'image.split(\":\")[1] == \"1\"'",
    "'labels[\"x\"] == \"1\"'",
    "'\"x\" in labels && int(labels[\"x\"]) > 3'",
    "'mounts.exists(m, m.source.matches(\"^/etc\"))'",
    "'requested.memory.limit > 1000000'",
    "'has(requested.memory) && requested.memory.limit / 0 == 1'",
    "'command.size() > 9223372036854775807'",
    "'capabilities.map(c, c + c).all(c, c != \"\")'",
    "'user.uid + 9223372036854775807 > 0'",
    "'device_access.exists(d, d.minor < 0) && seccomp != \"none\"'",
    "'image'",
    "'image ==='",
    "'unknown'",
    "'[1,2,3].map(x, [x].map(y, x * y))[0][0] == 1'",
    "'image.matches(\"(\")'",
    "5",
    "[a]",
];

/// Actions, right and wrong.
const ACTIONS: &[&str] = &[
    "set: {memory.limit: 512Mi}",
    "set: {memory.limit: '${requested.memory.limit * 2}'}",
    "set: {memory.limit: '${requested.memory.limit * requested.memory.limit}'}",
    "set: {cpus: '${1.0 / 3.0}', oom_score_adj: -17}",
    "set: {cpus: 9000000000000}",
    "set: {pids.limit: unlimited}",
    "set: {unified: {memory.high: '${image}'}, hugepages: {2MB: 4Mi}}",
    "set: {unified: {memory.max: '5', pids.max: max, cpu.max: '1000 2000'}}",
    "default: {unified: {memory.swap.max: '0'}, cpu.shares: 7, blockio_class: gold}",
    "default: {pids.limit: 7, env: {A: '${image}', B: 5}}",
    "at_most: {memory.limit: 1Mi, cpus: 0.0001, rlimits: {nofile: 3}}",
    "at_least: {memory.limit: 1Gi, pids.limit: -1}",
    "at_most: {rlimits: {nofile: {soft: 9, hard: 3}}}",
    "add: {env: {A: x}, mounts: [{source: /a, destination: '${image}'}]}",
    "add: {cdi: ['${command}', '${labels}']}",
    "add: {devices: [{path: /dev/null}], hooks: [{stage: prestart, path: /bin/true}]}",
    "add: {hooks: [{stage: never, path: /bin/true}]}",
    "add: {sysctl: {a: 1}, annotations: {b: c}, rlimits: {core: unlimited}}",
    "remove: {env: [A, PATH], mounts: [/host], devices: [/dev/null]}",
    "strip: {mounts: 'it.source == \"/etc\"', env: 'it.name > image'}",
    "strip: {env: 'it'}",
    "refuse: 'no ${image}'",
    "refuse: '${'",
    "observe: true",
    "override: true",
    "nothing: 1",
];

/// Entries of `unified`, which may say what fields say.
const FILES: &[&str] = &[
    "memory.max",
    "memory.swap.max",
    "memory.high",
    "cpu.max",
    "cpu.weight",
    "cpu.weight.nice",
    "cpuset.cpus",
    "pids.max",
    "hugetlb.2MB.max",
    "io.max",
];
const TEXTS: &[&str] = &["max", "0", "5", "9223372036854775807", "1 2", "-1", "x", "", "1\n2"];

prop_compose! {
    fn rule()(
        condition in option::of(select(CONDITIONS)),
        actions in vec(select(ACTIONS), 0..4),
    ) -> String {
        // The text of a rule after its name.
        let mut rule = String::from("\n");
        if let Some(condition) = condition {
            rule.push_str(&format!("    match: {condition}\n"));
        }
        for action in actions {
            rule.push_str(&format!("    {action}\n"));
        }
        rule
    }
}

prop_compose! {
    fn container()(
        image in "[ab/:1]{0,6}",
        labels in option::of("[0-9x]{0,3}"),
        facts in any::<bool>(),
        memory in option::of(any::<i64>()),
        source in select(&["/", "/etc", "/etc/x", ""][..]),
        env in vec("[A-C]?=?[a-z]{0,3}", 0..4),
        unified in vec((select(FILES), select(TEXTS)), 0..4),
    ) -> Container {
        let mut container = Container { env, ..Container::default() };
        container.image.mut_or_insert_default().name = image;
        container.labels.extend(labels.map(|label| ("x".to_owned(), label)));
        if facts {
            let fact = |name: &str, value: &str| {
                (format!("{}{name}", crate::facts::PREFIX), value.to_owned())
            };
            container.annotations.extend([
                fact("engine", "docker"),
                fact("privileged", "true"),
                fact("capabilities", "CAP_KILL"),
                fact("device_access", "c 1:3 rwm,b *:* m"),
                fact("seccomp", "filtered"),
            ]);
        }
        let limit = |bytes| LinuxMemory { limit: opt(Some(bytes)), ..Default::default() };
        let limit = memory.map(limit);
        let mut resources = LinuxResources { memory: limit.into(), ..Default::default() };
        resources.unified.extend(unified.iter().map(|(k, v)| ((*k).into(), (*v).into())));
        container.linux.mut_or_insert_default().resources = Some(resources).into();
        let (destination, type_) = ("/host".to_owned(), "bind".to_owned());
        let source = source.to_owned();
        container.mounts.push(Mount { destination, source, type_, ..Mount::default() });
        effective(container)
    }
}

proptest! {
    #![proptest_config(Config { cases: CASES, ..Config::default() })]

    #[test]
    fn no_file_and_no_container_is_a_panic_and_results_are_the_same_twice(
        rules in vec(rule(), 0..6),
        cut in option::weighted(0.1, 0_usize..200),
        container in container(),
    ) {
        let named = |(number, rule): (usize, &String)| format!("  - name: r{number}{rule}");
        let rules: String = rules.iter().enumerate().map(named).collect();
        let mut text = format!("rules:\n{rules}");
        if let Some(cut) = cut {
            text.truncate(cut);
        }
        let load = || load(&text).map_err(|error| error.to_string());
        let (rules, again) = match (load(), load()) {
            (Ok(rules), Ok(again)) => (rules, again),
            (Err(one), Err(other)) => {
                prop_assert_eq!(one, other);
                return Ok(());
            }
            _ => return Err(TestCaseError::fail("a file was read once, and once not")),
        };
        let pod = PodSandbox::new();
        let device = |path: &str| Ok(LinuxDevice { path: path.into(), ..Default::default() });
        let progress = Progress::until(Instant::now() + Duration::from_secs(600));
        let results = with_stack(|| {
            (
                decide(&rules, &pod, &container, &device, &progress),
                decide(&again, &pod, &container, &device, &progress),
            )
        });
        let (one, other) = results.expect("no panic");
        prop_assert_eq!(&one, &other);
        if let Ok(decision) = one {
            // What the SDK refuses would fail the creation without a reason for the user.
            let adjustment = decision.changes.adjustment().build();
            prop_assert!(adjustment.is_ok(), "{:?}", adjustment);
            let changed = decision.changes.since(&Changes::default(), &container);
            prop_assert_eq!(changed.is_empty(), decision.changes.is_empty());
        }
        let unified = container.linux.resources.unified.clone();
        let limits = with_stack(|| limit(&rules, &pod, &container, &unified, |_| true, &progress));
        prop_assert!(limits.is_ok());
    }
}

/// Conditions on two labels, each of which is there or not.
fn on_labels() -> impl Strategy<Value = String> {
    let atom = select(
        &[
            "'a' in labels",
            "has(labels.b)",
            "labels.a == 'x'",
            "labels['b'] != 'x'",
            "labels[?'a'].orValue('') == ''",
            "labels[?'a'].orValue('x') != 'x'",
            "labels[?'b'].orValue('') in ['', 'y']",
            "labels.?b.hasValue()",
            "labels.exists(k, labels[k] == 'x')",
            "['a', 'b'].all(k, k in labels && labels[k] == 'x')",
            "['a', 'b'].exists(k, labels[k] == 'x')",
            "image == ''",
            "true",
            "false",
        ][..],
    );
    atom.prop_map(str::to_owned).prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|one| format!("!({one})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && ({b})")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) || ({b})")),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(a, b, c)| format!("(({a}) ? ({b}) : ({c}))")),
        ]
    })
}

proptest! {
    #![proptest_config(Config { cases: CASES / 10, ..Config::default() })]

    #[test]
    fn rules_without_a_finding_refuse_no_container(
        refused in on_labels(),
        condition in on_labels(),
    ) {
        // The first rule guards the second one, and its condition guards its values.
        let text = format!(
            "rules: [{{name: a, match: \"{refused}\", refuse: x}}, \
             {{name: b, match: \"{condition}\", set: {{env: {{T: \"${{labels.a}}\"}}}}}}]"
        );
        let rules = load(&text).unwrap();
        if !findings(&rules, &Given::Unknown).unwrap().is_empty() {
            return Ok(());
        }
        let pod = PodSandbox::new();
        let device = |_: &str| Err(String::new());
        let progress = Progress::until(Instant::now() + Duration::from_secs(600));
        let values = [None, Some("x"), Some("y")];
        let fails = |(a, b): &(Option<&str>, Option<&str>)| {
            let mut container = Container::default();
            for (key, value) in [("a", a), ("b", b)] {
                container.labels.extend(value.map(|value| (key.to_owned(), value.to_owned())));
            }
            let decided = decide(&rules, &pod, &container, &device, &progress);
            matches!(decided, Err(Refusal::Evaluation { .. }))
        };
        let failed = with_stack(|| values.iter().flat_map(|a| values.map(|b| (*a, b))).find(fails));
        prop_assert_eq!(failed.unwrap(), None, "{}", text);
    }
}
