//! Tests of `nrid` with thousands of containers: `make test-size`.

use crate::{
    containers::{Sleep, create_and_start, perform, wait_for_status, with_status},
    descriptors::{event_count, restart},
    node::{Node, wait_until},
    views::{nrictl, start_with},
};
use nri_control::{Client, Request, Verb};
use std::time::{Duration, Instant};

/// Number of containers that end in a test.
const ENDING: usize = 10;

/// Creates containers from number `first` on, until `count` exist or a creation is refused. The
/// first [`ENDING`] containers have the process `ending`, all others `lasting`. Returns the number
/// of containers, and the message of the refusal.
fn fill(
    node: &Node,
    first: usize,
    count: usize,
    processes: [&Sleep; 2],
) -> (usize, Option<String>) {
    let [ending, lasting] = processes;
    for n in first..count {
        let process = if n < ENDING { ending } else { lasting };
        if let Err(message) = create_and_start(node, &format!("c{n:05}"), process) {
            return (n, Some(message));
        }
    }
    (count, None)
}

/// Checks that `nrid` knows `count` containers, that all of them run, and that the plugin was
/// notified of no stop.
fn check_none_lost(node: &Node, count: usize) {
    assert_eq!(node.status().containers, count);
    assert_eq!(with_status(node, "running").len(), count);
    assert_eq!(event_count(node, "StopContainer"), 0);
}

/// Ends the process of the first [`ENDING`] containers, and waits until these and no others are
/// stopped. Returns their ids.
fn end_first(node: &Node, ending: Sleep) -> Vec<String> {
    drop(ending);
    let ids: Vec<_> = (0..ENDING).map(|n| format!("c{n:05}")).collect();
    wait_for_status(node, "stopped", &ids.iter().map(String::as_str).collect::<Vec<_>>());
    wait_until("the plugin's events", || {
        (event_count(node, "StopContainer") == ENDING).then_some(())
    });
    ids
}

#[test]
#[ignore = "takes minutes, and needs a hard limit of 20,000 open files"]
fn ten_thousand_containers_need_no_higher_soft_limit() {
    const COUNT: usize = 10_000;
    // The timeouts are long because a plugin gets all containers in one event.
    let node = Node::new("plugin_request_timeout = 60\nplugin_registration_timeout = 60\n");
    node.plugin("10-a");
    let nrid = node.start_limited("-n 20000 && ulimit -Sn 1024");
    let (ending, lasting) = (Sleep::new(), Sleep::new());
    assert_eq!(fill(&node, 0, COUNT / 2, [&ending, &lasting]), (COUNT / 2, None));
    restart(&node);
    check_none_lost(&node, COUNT / 2);
    assert_eq!(fill(&node, COUNT / 2, COUNT, [&ending, &lasting]), (COUNT, None));
    check_none_lost(&node, COUNT);
    // Problems with watches of OOM kills are ignored: on cgroup v1, most containers have no watch.
    let problems = node.status().problems;
    assert!(!problems.iter().any(|p| p.contains("exits")), "{problems:?}");
    node.stop();
    nrid.wait_for_exit();

    let nrid = node.start_limited("-n 20000 && ulimit -Sn 1024");
    check_none_lost(&node, COUNT);
    end_first(&node, ending);
    assert_eq!(with_status(&node, "running").len(), COUNT - ENDING);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
#[ignore = "takes minutes"]
fn a_creation_beyond_a_hard_limit_of_1024_is_refused_until_containers_end() {
    let node = Node::new("");
    node.plugin("10-a");
    let nrid = node.start_limited("-n 1024");
    let (ending, lasting) = (Sleep::new(), Sleep::new());
    let (count, message) = fill(&node, 0, 1024, [&ending, &lasting]);
    let message = message.unwrap();
    // nrid reserves some of the 1024 descriptors, but less than half.
    assert!(count > 512 && message.lines().count() == 1, "{count}: {message}");
    for part in ["1024 open files", &format!("{count} containers"), "LimitNOFILE"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    check_none_lost(&node, count);
    restart(&node);
    check_none_lost(&node, count);
    assert!(create_and_start(&node, "refused", &lasting).is_err());

    for id in end_first(&node, ending) {
        perform(&node, Verb::Delete, &id, "/bin/false", None).unwrap();
    }
    let count = count - ENDING;
    assert_eq!(node.status().containers, count);
    for n in 0..ENDING {
        create_and_start(&node, &format!("n{n}"), &lasting).unwrap();
    }
    assert!(create_and_start(&node, "refused", &lasting).is_err());
    assert_eq!(with_status(&node, "running").len(), count + ENDING);
    node.stop();
    nrid.wait_for_exit();
}

#[test]
#[ignore = "takes a minute"]
#[allow(clippy::print_stdout, reason = "the result of the measurement")]
fn lists_of_ten_thousand_containers_are_quick_and_delay_no_other_request() {
    const COUNT: usize = 10_000;
    let process = Sleep::new();
    let (node, nrid) = start_with(COUNT, &process);
    for command in ["containers", "pods"] {
        let began = Instant::now();
        let call = std::thread::scope(|scope| {
            let call = scope.spawn(|| nrictl(&node, &[command]));
            let client = Client::connect(&node.socket()).unwrap();
            let mut longest = Duration::ZERO;
            while !call.is_finished() {
                let began = Instant::now();
                client.call(&Request::Ping, &[]).unwrap();
                longest = longest.max(began.elapsed());
                std::thread::sleep(Duration::from_millis(1));
            }
            (call.join().unwrap(), longest)
        });
        let (took, (output, longest)) = (began.elapsed(), call);
        println!("{command}: {took:?}, longest ping meanwhile {longest:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap().lines().count(), COUNT + 1);
        assert!(took < Duration::from_secs(10) && longest < Duration::from_secs(1));
    }
    node.stop();
    nrid.wait_for_exit();
}
