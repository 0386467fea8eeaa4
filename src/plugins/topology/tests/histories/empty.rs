//! Placement on machines without containers, or with few: there, the best one is known.

use crate::machines;
use nri_topology::{
    hardware::{
        cpuset::CpuSet,
        machine::{Level, Machine},
    },
    placement::{Choice, Span, Wanted, choose},
    policy::{Smt, Within},
};

fn chosen(machine: &Machine, count: usize, smt: Smt) -> Choice {
    let suitable = &machine.cpus;
    let wanted = Wanted { count, smt, suitable, within: Within::Machine };
    choose(machine, &machine.cpus, &wanted).unwrap()
}

/// Returns the size of the largest group of a level; 0 without groups.
fn largest(machine: &Machine, level: Level) -> usize {
    machine.groups(level).iter().map(|group| group.len()).max().unwrap_or_default()
}

#[test]
fn cpus_are_as_near_as_the_machine_allows() {
    for (name, machine) in machines::all() {
        for count in 1..=machine.cpus.len() {
            let choice = chosen(&machine, count, Smt::Share);
            let span = Span::of(&machine, &choice.cpus);
            assert_eq!(choice.cpus.len(), count, "{name}");
            for (level, spanned) in [
                (Level::Package, span.packages),
                (Level::Node, span.nodes),
                (Level::L3, span.caches),
                (Level::Core, span.cores),
            ] {
                if count <= largest(&machine, level) {
                    assert_eq!(spanned, 1, "{name}: {count} CPUs, {level:?}: {:?}", choice.cpus);
                }
            }
        }
    }
}

#[test]
fn threads_of_cores_are_together() {
    let cpus = |name: &str, count: usize, smt: Smt| {
        let machines = machines::all();
        let (_, machine) = machines.iter().find(|(known, _)| known == name).unwrap();
        let choice = chosen(machine, count, smt);
        (choice.cpus.to_string(), choice.owned.to_string())
    };
    let check = |name: &str, count: usize, smt: Smt, expected: &str, owned: &str| {
        assert_eq!(cpus(name, count, smt), (expected.to_owned(), owned.to_owned()), "{name}");
    };
    check("32-cpus-2-sockets", 4, Smt::Share, "0-1,16-17", "0-1,16-17");
    check("32-cpus-2-sockets", 3, Smt::Whole, "0-1,16-17", "0-1,16-17");
    check("32-cpus-2-sockets", 3, Smt::Single, "0-2", "0-2,16-18");
    check("32-cpus-2-sockets", 16, Smt::Share, "0-7,16-23", "0-7,16-23");
    check("80-cpus-2-sockets-sub-numa", 2, Smt::Share, "0,40", "0,40");
    check("20-cpus-1-socket-hybrid", 4, Smt::Share, "12-15", "12-15");
    check("20-cpus-1-socket-hybrid", 12, Smt::Share, "0-11", "0-11");
    check("128-cpus-2-sockets-4-nodes-arm", 4, Smt::Share, "0-3", "0-3");
}

#[test]
fn whole_cores_come_before_groups_with_fewer_free_cpus() {
    let machines = machines::all();
    let (_, machine) = machines.iter().find(|(name, _)| name == "32-cpus-2-sockets").unwrap();
    // One whole core and three threads on the first node, all CPUs on the second one.
    let free: CpuSet = "0-3,16,8-15,24-31".parse().unwrap();
    let check = |count: usize, within: Within, expected: &str| {
        let wanted = Wanted { count, smt: Smt::Share, suitable: &machine.cpus, within };
        assert_eq!(choose(machine, &free, &wanted).unwrap().cpus.to_string(), expected);
    };
    for within in [Within::Machine, Within::Node] {
        check(1, within, "1");
        check(2, within, "0,16");
        check(3, within, "0-1,16");
        check(4, within, "8-9,24-25");
    }
}

#[test]
fn kinds_of_cores_are_known() {
    let machines = machines::all();
    for (name, machine) in &machines {
        let kinds: Vec<String> = machine.kinds.iter().map(ToString::to_string).collect();
        match name.as_str() {
            "20-cpus-1-socket-hybrid" => assert_eq!(kinds, ["0-11", "12-19"]),
            _ => assert_eq!(kinds.len(), 1, "{name}"),
        }
    }
}
