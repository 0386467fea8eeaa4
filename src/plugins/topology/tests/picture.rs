//! The picture and the table of `nri-topology status`, for some containers on a machine with two
//! sockets. The picture is that of the documentation: `NRI_REGENERATE=1` writes it.

#![allow(clippy::unwrap_used, reason = "helpers of tests, which clippy takes for ordinary code")]

use nri_topology::{
    allocator::Allocator,
    hardware::{snapshot::Snapshot, sysfs},
    request::{CLASS_KEY, CPUS_KEY, request},
    status::Status,
    subject::Subject,
    svg,
};
use std::{fs, path::Path};

const POLICY: &str = r#"
reserved_cpus = 2
requests_max = 20
[class.latency]
cpus = "exclusive"
smt = "whole"
within = "node"
"#;

fn status() -> Status {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
    let machine = directory.join("tests/topologies/32-cpus-2-sockets.txt");
    let snapshot: Snapshot = fs::read_to_string(machine).unwrap().parse().unwrap();
    let machine = sysfs::machine(&snapshot).unwrap();
    let mut allocator = Allocator::new(machine, POLICY.parse().unwrap()).unwrap();
    let containers = [
        ("web", None, None),
        ("database", Some("latency"), Some("7")),
        ("queue", None, Some("4")),
        ("cache", Some("latency"), Some("4")),
        ("worker <1>", None, None),
    ];
    for (name, class, cpus) in containers {
        let mut subject = Subject { name: name.to_owned(), ..Subject::default() };
        for (key, value) in [(CLASS_KEY, class), (CPUS_KEY, cpus)] {
            subject.annotations.extend(value.map(|value| (key.to_owned(), value.to_owned())));
        }
        let request = request(allocator.policy(), &subject).unwrap();
        allocator.create(name, request).unwrap();
    }
    Status::of(&allocator)
}

#[test]
fn the_picture_is_that_of_the_documentation() {
    let picture = svg::picture(&status());
    assert!(picture.contains("worker") == picture.contains("worker &lt;1&gt;"), "not escaped");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/pictures/topology.svg");
    if std::env::var_os("NRI_REGENERATE").is_some() {
        fs::write(&path, format!("{picture}\n")).unwrap();
    }
    assert_eq!(fs::read_to_string(path).unwrap().trim_end(), picture);
}

#[test]
fn the_table_has_a_row_for_each_container() {
    let table = status().table();
    let words: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["Machine:", "0-31", "(32", "CPUs)"]);
    assert_eq!(words[1], ["Reserved:", "0,16", "(2", "CPUs)"]);
    let row = |name: &str| words.iter().find(|words| words.first() == Some(&name)).unwrap();
    assert_eq!(row("database")[1..3], ["latency", "exclusive"]);
    assert_eq!(row("queue")[1..3], ["exclusive", "exclusive"]);
    assert_eq!(row("web")[1..3], ["shared", "shared"]);
    let taken = ["database", "(8),", "cache", "(4),", "queue", "(4)"];
    let quota = words.last().unwrap();
    assert_eq!(quota[..3], ["requests_max", "16", "20"]);
    assert_eq!(quota.len(), 3 + taken.len(), "{table}");
    assert_eq!(words.len(), 3 + 1 + 5 + 2, "{table}");
}
