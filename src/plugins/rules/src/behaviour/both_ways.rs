//! Tests of limits that a container, or a rule, sets in a field and in `unified`.

use crate::{
    changes::{Changed, Changes},
    decide::decide,
    load::load,
    refusal::Refusal,
    stack::{Progress, with_stack},
    unified::effective,
};
use nri_api::opt;
use nri_plugin::proto::{Container, HugepageLimit, LinuxDevice, LinuxResources, PodSandbox};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

const MIB: i64 = 1 << 20;

/// A container with small limits in its fields, and with these entries.
fn container(entries: &[(&str, &str)]) -> Container {
    let mut resources = LinuxResources::new();
    let memory = resources.memory.mut_or_insert_default();
    (memory.limit, memory.swap) = (opt(Some(100 * MIB)), opt(Some(100 * MIB)));
    memory.reservation = opt(Some(MIB));
    let cpu = resources.cpu.mut_or_insert_default();
    (cpu.quota, cpu.period, cpu.shares) = (opt(Some(1000)), opt(Some(50_000)), opt(Some(2)));
    cpu.cpus = "0".to_owned();
    resources.pids.mut_or_insert_default().limit = 5;
    let pages = HugepageLimit { page_size: "2MB".into(), limit: 0, ..Default::default() };
    resources.hugepage_limits.push(pages);
    let entries = entries.iter().map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
    resources.unified.extend(entries);
    let mut container = Container::default();
    container.linux.mut_or_insert_default().resources = Some(resources).into();
    effective(container)
}

/// Returns the changes of rules as `field=value`.
fn decided(rules: &str, entries: &[(&str, &str)]) -> Result<Vec<String>, Refusal> {
    let rules = load(&format!("rules: [{rules}]")).unwrap_or_else(|error| panic!("{error}"));
    let container = container(entries);
    let device = |_: &str| Ok(LinuxDevice::default());
    let progress = Progress::until(Instant::now() + Duration::from_secs(60));
    let pod = PodSandbox::new();
    let decision = with_stack(|| decide(&rules, &pod, &container, &device, &progress)).unwrap();
    let changed = decision?.changes.since(&Changes::default(), &container);
    let shown = |c: Changed| format!("{}={}", c.field, c.after.unwrap_or_default());
    Ok(changed.into_iter().map(shown).collect())
}

fn changes(rules: &str, entries: &[(&str, &str)]) -> Vec<String> {
    decided(rules, entries).unwrap()
}

#[test]
fn a_limit_holds_for_the_entry_of_its_file() {
    for (limit, entry, expected) in [
        (
            "memory.limit: 200Mi",
            ("memory.max", "max"),
            &["memory.limit=209715200", "unified[memory.max]=\"209715200\""][..],
        ),
        ("memory.limit: 200Mi", ("memory.max", "104857600"), &[]),
        (
            "memory.reservation: 2Mi",
            ("memory.low", "3145728"),
            &["memory.reservation=2097152", "unified[memory.low]=\"2097152\""],
        ),
        (
            "memory.swap: 150Mi",
            ("memory.swap.max", "max"),
            &["memory.swap=157286400", "unified[memory.swap.max]=\"52428800\""],
        ),
        (
            "cpus: 2",
            ("cpu.max", "max 10000"),
            &["cpu.period=10000", "cpu.quota=20000", "unified[cpu.max]=\"20000 10000\""],
        ),
        (
            "cpu.shares: 1024",
            ("cpu.weight", "10000"),
            &["cpu.shares=1024", "unified[cpu.weight]=\"100\""],
        ),
        ("cpu.shares: 1024", ("cpu.weight", "100"), &[]),
        ("pids.limit: 9", ("pids.max", "10"), &["pids.limit=9", "unified[pids.max]=\"9\""]),
        (
            "hugepages: {2MB: 2Mi}",
            ("hugetlb.2MB.max", "max"),
            &["hugepageLimits[2MB]=2097152", "unified[hugetlb.2MB.max]=\"2097152\""],
        ),
        (
            "hugepages: {2MB: 2Mi}",
            ("hugetlb.2MB.rsvd.max", "max"),
            &["hugepageLimits[2MB]=2097152", "unified[hugetlb.2MB.rsvd.max]=\"2097152\""],
        ),
    ] {
        let rule = format!("{{name: a, at_most: {{{limit}}}}}");
        let found: BTreeSet<_> = changes(&rule, &[entry]).into_iter().collect();
        let expected = expected.iter().map(|text| (*text).to_owned()).collect();
        assert_eq!(found, expected, "{limit} {entry:?}");
    }
    let least = "{name: a, at_least: {memory.limit: 50Mi}}";
    let raised = ["memory.limit=52428800", "unified[memory.max]=\"52428800\""];
    assert_eq!(changes(least, &[("memory.max", "1")]), raised);
}

/// A limit of memory that a rule lowers is one of memory and swap, too.
#[test]
fn no_swap_stays_beside_a_limit_of_memory_that_a_rule_lowers() {
    let rule = "{name: a, at_most: {memory.limit: 10Mi}}";
    let expected = ["memory.limit=10485760", "unified[memory.swap.max]=\"0\""];
    assert_eq!(changes(rule, &[("memory.swap.max", "max")]), expected);
}

#[test]
fn a_value_is_set_in_both_ways() {
    let rule = "{name: a, set: {cpu.cpus: '0', memory.limit: 100Mi}}";
    assert_eq!(changes(rule, &[]), [""; 0]);
    let entries = [("cpuset.cpus", "0-63"), ("memory.max", "max"), ("memory.high", "7")];
    let expected = [
        "memory.limit=104857600",
        "cpu.cpus=\"0\"",
        "unified[cpuset.cpus]=\"0\"",
        "unified[memory.max]=\"104857600\"",
    ];
    let found: BTreeSet<_> = changes(rule, &entries).into_iter().collect();
    assert_eq!(found, expected.map(str::to_owned).into());
}

#[test]
fn a_default_applies_only_where_neither_way_is_used() {
    let rule = "{name: a, default: {memory.limit: 5Gi, pids.limit: 7, cpu.mems: '1', \
         unified: {memory.max: '6', memory.high: '7', memory.min: '8'}}}";
    let entries = [("cpuset.mems", "0"), ("memory.high", "9")];
    assert_eq!(changes(rule, &entries), ["unified[memory.min]=\"8\""]);
}

#[test]
fn rules_see_what_others_set_in_the_other_way() {
    let entry = "{name: a, set: {unified: {memory.max: max}}}, ";
    let limited = ["memory.limit=209715200", "unified[memory.max]=\"209715200\""];
    assert_eq!(
        changes(&format!("{entry}{{name: b, at_most: {{memory.limit: 200Mi}}}}"), &[]),
        limited
    );
    for both in [
        "{name: a, match: 'image == \"\"', set: {memory.limit: 9Mi}}, \
         {name: b, set: {unified: {memory.max: max}}}",
        "{name: a, set: {unified: {memory.max: max}}}, {name: b, set: {memory.limit: 9Mi}}",
    ] {
        let refused = decided(both, &[]).unwrap_err().to_string();
        assert!(refused.contains("and rule \"a\" has set it to"), "{refused}");
        let allowed = both.replace("{name: b", "{name: b, override: true");
        assert!(decided(&allowed, &[]).is_ok());
    }
}

#[test]
fn conditions_see_the_value_that_the_kernel_gets() {
    let rule = "{name: a, match: requested.memory.limit > 1000000000, refuse: large}";
    assert!(decided(rule, &[]).is_ok());
    assert!(decided(rule, &[("memory.max", "5000000000")]).is_err());
}

#[test]
fn an_entry_that_cannot_be_compared_is_refused_where_a_rule_limits_its_field() {
    let nice = [("cpu.weight.nice", "-20")];
    let refused = decided("{name: a, at_most: {cpu.shares: 5}}", &nice).unwrap_err();
    let expected = "rule \"a\" sets or limits cpu.shares, and the container requests \
         unified[cpu.weight.nice], which sets the same and cannot be compared with it";
    assert_eq!(refused.to_string(), expected);
    let io = [("io.max", "8:0 rbps=max")];
    assert!(decided("{name: a, set: {blockio_class: slow}}", &io).is_err());
    let default = "{name: a, default: {blockio_class: slow, cpu.shares: 7}}";
    assert_eq!(changes(default, &io), [""; 0]);
    assert_eq!(changes("{name: a, at_most: {pids.limit: 5}}", &nice), [""; 0]);
}
