//! Quotas: what the containers of a tenant may take, and what stays for others.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_topology::{
    account::warnings,
    allocator::Allocator,
    hardware::{snapshot::Snapshot, sysfs},
    policy::Policy,
    request::{CPUS_KEY, request},
    status::Status,
    subject::Subject,
};
use std::{collections::BTreeMap, fs, path::Path};

/// A machine with 32 CPUs.
fn allocator(policy: &str) -> Allocator {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    let machine = fs::read_to_string(directory.join("32-cpus-2-sockets.txt")).unwrap();
    let machine = sysfs::machine(&machine.parse::<Snapshot>().unwrap()).unwrap();
    Allocator::new(machine, policy.parse().unwrap()).unwrap()
}

fn wants(name: &str, cpus: &str) -> Subject {
    let annotations = BTreeMap::from([(CPUS_KEY.to_owned(), cpus.to_owned())]);
    Subject { name: name.to_owned(), annotations, ..Subject::default() }
}

fn pinned(name: &str, cpus: &str) -> Subject {
    let pinned = Some((cpus.parse().unwrap(), Default::default()));
    Subject { name: name.to_owned(), pinned, ..Subject::default() }
}

/// Creates a container; its id is its name.
fn create(allocator: &mut Allocator, subject: &Subject) -> Result<(), String> {
    let wanted = request(allocator.policy(), subject).map_err(|e| e.to_string())?;
    allocator.create(&subject.name, wanted).map(|_| ()).map_err(|e| e.to_string())
}

fn cpus(allocator: &Allocator, id: &str) -> String {
    allocator.containers()[id].cpus.to_string()
}

#[test]
fn requests_take_half_of_the_machine_and_rules_more() {
    let policy =
        "[class.big]\ncpus = 'exclusive'\ncount = 15\n[[rule]]\nclass = 'big'\nname = 'db'";
    let mut allocator = allocator(policy);
    create(&mut allocator, &wants("a", "10")).unwrap();
    let refused = create(&mut allocator, &wants("b", "7")).unwrap_err();
    let expected = "topology: class \"exclusive\": 7 exclusive CPUs are wanted, and requests_max \
        allows 16, of which 10 are taken by a (10): end one of these containers, or raise \
        requests_max";
    assert_eq!(refused, expected);
    create(&mut allocator, &wants("b", "6")).unwrap();
    create(&mut allocator, &Subject { name: "db".to_owned(), ..Subject::default() }).unwrap();
    let bigger = allocator.update("a", &wants("a", "11")).unwrap_err().to_string();
    assert!(
        bigger.contains("11 exclusive CPUs are wanted, and requests_max allows 16"),
        "{bigger}"
    );
    allocator.update("a", &wants("a", "9")).unwrap();
    // The update of "a" may fail.
    let early = allocator.update("b", &wants("b", "7")).unwrap_err().to_string();
    assert!(early.contains("of which 10 are taken by a (10)"), "{early}");
    let has = allocator.containers()["a"].cpus.clone();
    allocator.confirm("a", &has);
    allocator.update("b", &wants("b", "7")).unwrap();
}

#[test]
fn each_namespace_has_its_own_quota_and_the_first_one_counts() {
    let mut allocator = allocator(
        "[[quota]]\nnamespace = 'team-*'\nper = 'namespace'\nexclusive_cpus = 4\n\
         [[quota]]\nper_label = 'customer'\nexclusive_cpus = '10%'\n",
    );
    let of = |namespace: &str, subject: Subject| Subject {
        namespace: namespace.to_owned(),
        labels: BTreeMap::from([("customer".to_owned(), "acme".to_owned())]),
        ..subject
    };
    create(&mut allocator, &of("team-a", wants("a1", "3"))).unwrap();
    create(&mut allocator, &of("team-b", wants("b1", "4"))).unwrap();
    let refused = create(&mut allocator, &of("team-a", wants("a2", "2"))).unwrap_err();
    let expected = "2 exclusive CPUs are wanted, and quota 1 (namespace \"team-*\") of \"team-a\" \
        allows 4, of which 3 are taken by a1 (3): end one of these containers, or raise its \
        exclusive_cpus";
    assert!(refused.ends_with(expected), "{refused}");
    create(&mut allocator, &of("team-a", wants("a2", "1"))).unwrap();
    create(&mut allocator, &of("other", wants("c1", "3"))).unwrap();
    create(&mut allocator, &of("other", wants("c2", "1"))).unwrap_err();
    let table = Status::of(&allocator).table();
    let row = |name: &str| {
        let line = table.lines().find(|line| line.contains(name)).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("of \"team-a\""),
        "quota 1 (namespace \"team-*\") of \"team-a\" 4 4 a1 (3), a2 (1)"
    );
    assert_eq!(row("of \"acme\""), "quota 2 (all containers) of \"acme\" 3 3 c1 (3)");
}

#[test]
fn a_flood_of_cpusets_denies_no_exclusive_cpus() {
    let rule = "[class.big]\ncpus = 'exclusive'\ncount = 15\n[[rule]]\nclass = 'big'\nname = 'db'";
    let mut allocator = allocator(rule);
    create(&mut allocator, &pinned("all", "0-31")).unwrap();
    for cpu in 0..31 {
        create(&mut allocator, &pinned(&format!("p{cpu:02}"), &cpu.to_string())).unwrap();
    }
    assert_eq!(
        (cpus(&allocator, "all").as_str(), cpus(&allocator, "p30").as_str()),
        ("0-31", "30")
    );
    let reason = allocator.containers()["all"].reason.clone().unwrap();
    assert!(reason.contains("0-31") && reason.contains("requests_max allows 16"), "{reason}");
    assert_eq!(allocator.containers()["p00"].reason, None);
    create(&mut allocator, &wants("a", "16")).unwrap();
    create(&mut allocator, &Subject { name: "db".to_owned(), ..Subject::default() }).unwrap();
    // One CPU is left for all others, among them those whose CPUs are gone.
    let left = allocator.pool();
    assert_eq!(left.len(), 1);
    assert_eq!(cpus(&allocator, "all"), left.to_string());
    assert_eq!(cpus(&allocator, "p00"), left.to_string());
    // Whoever has none of its CPUs from the beginning is refused.
    let taken = allocator.containers()["db"].cpus.first().unwrap().to_string();
    let refused = create(&mut allocator, &pinned("late", &taken)).unwrap_err();
    assert!(refused.contains("are exclusive CPUs of others"), "{refused}");
    allocator.remove("a");
    allocator.remove("db");
    assert_eq!((cpus(&allocator, "all").as_str(), cpus(&allocator, "p00").as_str()), ("0-31", "0"));
}

#[test]
fn cpus_of_the_engine_are_held_within_a_quota() {
    let mut allocator = allocator("requests_max = 8");
    create(&mut allocator, &pinned("p", "0-3")).unwrap();
    create(&mut allocator, &wants("a", "4")).unwrap();
    assert_eq!(cpus(&allocator, "p"), "0-3");
    assert!(!allocator.containers()["a"].cpus.intersects(&"0-3".parse().unwrap()));
    // Exclusive CPUs come first.
    create(&mut allocator, &wants("b", "4")).unwrap();
    assert!(allocator.containers()["p"].reason.is_some());
    create(&mut allocator, &wants("c", "1")).unwrap_err();
    let policy = "requests_max = 0\n[[quota]]\nexclusive_cpus = 2\ncpuset_counts = false";
    let mut free = self::allocator(policy);
    create(&mut free, &pinned("p", "0-15")).unwrap();
    assert_eq!(free.containers()["p"].reason, None);
    create(&mut free, &wants("a", "2")).unwrap();
    assert!(!free.containers()["a"].cpus.intersects(&"0-15".parse().unwrap()));
}

/// Whole cores are wanted, and one CPU of each is that of an engine.
#[test]
fn cpus_of_the_engine_keep_no_container_from_whole_cores() {
    let mut allocator = allocator(
        "[class.gold]\ncpus = 'exclusive'\nsmt = 'whole'\ncount = 2\n\
         [[rule]]\nclass = 'gold'\nname = 'db'\n",
    );
    create(&mut allocator, &pinned("p", "0-15")).unwrap();
    create(&mut allocator, &Subject { name: "db".to_owned(), ..Subject::default() }).unwrap();
    let db = &allocator.containers()["db"].cpus;
    assert_eq!((db.len(), allocator.containers()["p"].cpus.len()), (2, 15));
    assert!(!allocator.containers()["p"].cpus.intersects(db));
}

#[test]
fn a_number_of_any_size_is_refused() {
    let mut allocator = allocator("requests_max = '100%'");
    create(&mut allocator, &wants("a", "1")).unwrap();
    create(&mut allocator, &pinned("p", "20")).unwrap();
    create(&mut allocator, &wants("b", &usize::MAX.to_string())).unwrap_err();
}

/// The machine has two nodes.
#[test]
fn a_limit_of_any_size_leaves_others_in_its_group() {
    let mut allocator = allocator("[class.shared]\nwithin = 'node'");
    let shared = |name: &str, milli_cpus: u64| Subject {
        name: name.to_owned(),
        milli_cpus,
        ..Subject::default()
    };
    create(&mut allocator, &shared("hog", u64::MAX)).unwrap();
    for number in 0..40 {
        create(&mut allocator, &shared(&format!("w{number:02}"), 1000)).unwrap();
    }
    let hog = allocator.containers()["hog"].cpus.clone();
    let beside = allocator.containers().values().filter(|placed| placed.cpus == hog).count();
    assert!((10..=20).contains(&beside), "{beside}");
}

#[test]
fn a_quota_by_engine_holds_where_the_engine_is_unknown() {
    let mut allocator = allocator("[[quota]]\nengine = 'docker'\nexclusive_cpus = 2");
    let by = |engine: Option<&str>, subject: Subject| Subject {
        engine: engine.map(str::to_owned),
        ..subject
    };
    let refused = create(&mut allocator, &by(None, wants("a", "1"))).unwrap_err();
    assert!(refused.contains("facts = [\"engine\"]"), "{refused}");
    create(&mut allocator, &by(Some("docker"), wants("a", "3"))).unwrap_err();
    create(&mut allocator, &by(Some("docker"), wants("a", "2"))).unwrap();
    create(&mut allocator, &by(Some("podman"), wants("b", "3"))).unwrap();
    create(&mut allocator, &by(None, Subject { name: "c".to_owned(), ..Subject::default() }))
        .unwrap();
}

#[test]
fn rules_that_give_cpus_to_whoever_asks_are_named() {
    let check = |text: &str, count: usize| {
        let policy: Policy = format!("{text}\n[class.own]\ncpus = 'exclusive'\n").parse().unwrap();
        assert_eq!(warnings(&policy).len(), count, "{:?}", warnings(&policy));
    };
    let rule = "[[rule]]\nclass = 'own'\nname = 'db*'\n";
    check(rule, 1);
    check("[[rule]]\nclass = 'shared'\nname = 'db*'\n", 0);
    check(&format!("{rule}namespace = 'a'\n"), 0);
    check(&format!("{rule}[[quota]]\nexclusive_cpus = 1\nper = 'pod'\n"), 0);
    check(&format!("{rule}[[quota]]\nexclusive_cpus = 1\nimage = 'x'\n"), 1);
    check(&format!("{rule}image = 'x'\n[[quota]]\nexclusive_cpus = 1\nimage = 'x'\n"), 0);
    check("[class.free]\ncpus = 'unmanaged'\n", 1);
    let free = "[class.free]\ncpus = 'unmanaged'\nby_rule_only = true\n";
    check(free, 0);
    let by =
        |rest: &str| format!("{free}[[rule]]\nclass = 'free'\nname = 'node-exporter*'\n{rest}");
    check(&by(""), 1);
    check(&by("namespace = 'kube-system'\n"), 0);
    check(&by("namespace = '*'\n"), 1);
    check(&format!("default_class = 'free'\n{free}"), 1);
    check(&format!("{rule}namespace = '*'\n"), 1);
    let warning = warnings(&format!("[class.own]\ncpus = 'exclusive'\n{rule}").parse().unwrap());
    assert!(warning[0].starts_with("rule 1 gives exclusive CPUs (class \"own\")"), "{warning:?}");
}
