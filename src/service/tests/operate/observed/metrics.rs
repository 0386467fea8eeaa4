//! Tests of the metrics: what is served, where, and that the documentation lists it.

use crate::{
    containers::{Sleep, create_and_start},
    node::{Node, wait_until},
};
use nri_control::{Reply, Request};
use prometheus_parse::{Sample, Scrape, Value};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

/// Document with the table of the metrics.
const OPERATIONS: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/operations.md"));

/// Sends a scrape, and returns the head and the body of the response.
fn scrape(mut stream: impl Read + Write) -> (String, String) {
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

pub(super) fn scrape_socket(socket: &Path) -> String {
    let (head, body) = scrape(UnixStream::connect(socket).unwrap());
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: text/plain; version=0.0.4"), "{head}");
    body
}

pub(super) fn parse(text: &str) -> Scrape {
    Scrape::parse(text.lines().map(|line| Ok(line.to_owned()))).unwrap()
}

fn configuration(listen: &str) -> String {
    format!("[metrics]\nlisten = \"{listen}\"\n")
}

pub(super) fn unix_configuration(socket: &Path) -> String {
    configuration(&format!("unix:{}", socket.display()))
}

fn reload(node: &Node) -> Reply {
    node.call(&Request::Reload)
}

/// Returns the samples of a metric.
fn samples<'a>(scrape: &'a Scrape, name: &str) -> Vec<&'a Sample> {
    scrape.samples.iter().filter(|sample| sample.metric == name).collect()
}

/// Returns the only value of a metric.
pub(super) fn value(scrape: &Scrape, name: &str) -> f64 {
    match samples(scrape, name)[..] {
        [Sample { value: Value::Counter(value) | Value::Gauge(value), .. }] => *value,
        ref other => panic!("{name}: {other:?}"),
    }
}

/// Type and labels of metrics, by name. Fails if a metric has no help.
fn described(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let comments = |kind: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter_map(|line| line.strip_prefix(&format!("# {kind} ")));
        lines.map(|line| line.split_once(' ').unwrap()).map(|(a, b)| (a.into(), b.into())).collect()
    };
    let (helps, types) = (comments("HELP"), comments("TYPE"));
    assert!(helps.keys().eq(types.keys()), "{helps:?} {types:?}");
    let scrape = parse(text);
    let labels_of = |name: &str| -> BTreeSet<String> {
        let labels = samples(&scrape, name).into_iter();
        labels.flat_map(|s| s.labels.keys().map(ToString::to_string).collect::<Vec<_>>()).collect()
    };
    types.into_iter().map(|(name, kind)| (name.clone(), (kind, labels_of(&name)))).collect()
}

/// Returns the table of the document in the same form.
fn documented() -> BTreeMap<String, (String, BTreeSet<String>)> {
    let (_, section) = OPERATIONS.split_once("\n## Metrics\n").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `nri_"));
    let row = |line: &str| {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let labels = cells[2].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (cells[0].trim_matches('`').to_owned(), (cells[1].to_owned(), labels))
    };
    rows.map(row).collect()
}

#[test]
fn the_metrics_are_those_of_the_documentation_and_count_what_happened() {
    let node = Node::new("");
    let socket = node.path("m/metrics.sock");
    node.configure(&unix_configuration(&socket));
    node.plugin("10-logger");
    let nrid = node.start();
    assert_eq!(node.status().metrics, Some(format!("unix:{}", socket.display())));
    let process = Sleep::new();
    create_and_start(&node, "c1", &process).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));

    let text = scrape_socket(&socket);
    assert_eq!(described(&text), documented());
    let found = parse(&text);
    assert_eq!((value(&found, "nri_containers"), value(&found, "nri_pods")), (1.0, 1.0));
    assert_eq!(value(&found, "nri_plugin_active"), 1.0);
    assert_eq!(value(&found, "nri_enforcement_mismatches_total"), 0.0);
    assert!(value(&found, "nri_plugin_resident_memory_bytes") > 100_000.0);
    assert!(value(&found, "nri_start_time_seconds") > 1.6e9);
    let build = samples(&found, "nri_build_info");
    assert_eq!(build[0].labels.get("version"), Some(env!("CARGO_PKG_VERSION")));
    let of_creation = |sample: &&&Sample| sample.labels.get("event") == Some("CREATE_CONTAINER");
    let durations = samples(&found, "nri_plugin_call_duration_seconds");
    let durations = durations.iter().find(of_creation).unwrap();
    assert_eq!(durations.labels.get("plugin"), Some("10-logger"));
    let Value::Histogram(buckets) = &durations.value else { panic!("{durations:?}") };
    assert!(buckets.is_sorted_by(|a, b| a.less_than < b.less_than && a.count <= b.count));
    let last = buckets.last().unwrap();
    assert!(last.less_than.is_infinite() && last.count == 1.0, "{buckets:?}");
    // The counts and sums of histograms are samples of their own for the parser.
    for line in [
        "nri_plugin_call_duration_seconds_count{event=\"CREATE_CONTAINER\",plugin=\"10-logger\"} 1",
        "nri_plugin_restarts_total{plugin=\"10-logger\"} 0",
        "nri_commit_queue_duration_seconds_bucket{le=\"0.0001\"} ",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}: {text}");
    }
    node.stop();
    nrid.wait_for_exit();
    assert!(!socket.exists());
}

/// Returns a port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn the_listener_follows_reloads_and_restarts() {
    let node = Node::new("");
    let nrid = node.start();
    assert_eq!(node.status().metrics, None, "metrics are off by default");
    let (first, port) = (node.path("first.sock"), free_port());
    node.configure(&unix_configuration(&first));
    assert!(matches!(reload(&node), Reply::Reloaded(_)));
    scrape_socket(&first);
    let client = nri_control::Client::connect(&node.socket()).unwrap();
    client.set_timeout(Some(crate::node::TIMEOUT)).unwrap();
    client.call(&Request::Restart { program: None }, &[]).unwrap();
    assert!(client.wait_closed());
    node.status();
    scrape_socket(&first);

    // A removed socket is created again.
    fs::remove_file(&first).unwrap();
    // The socket exists shortly before it listens.
    wait_until("the socket", || UnixStream::connect(&first).ok());
    scrape_socket(&first);

    // A port that another process has is served as soon as it is free.
    let blocker = TcpListener::bind(("127.0.0.1", port)).unwrap();
    node.configure(&configuration(&format!("127.0.0.1:{port}")));
    assert!(matches!(reload(&node), Reply::Reloaded(_)));
    assert!(!first.exists());
    let status = node.status();
    let problem = format!("metrics cannot be served at 127.0.0.1:{port}: Address already in use");
    assert!(status.problems.iter().any(|p| p.starts_with(&problem)), "{:?}", status.problems);
    drop(blocker);
    wait_until("the port", || node.status().metrics);
    assert!(node.status().problems.is_empty());
    let (head, _) = scrape(TcpStream::connect(("127.0.0.1", port)).unwrap());
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");

    node.configure(&configuration("0.0.0.0:9464"));
    let Reply::Refused { message } = reload(&node) else { panic!("not refused") };
    assert!(message.contains("0.0.0.0:9464 is not a loopback address"), "{message}");
    assert!(node.status().metrics.is_some());
    node.configure("");
    assert!(matches!(reload(&node), Reply::Reloaded(_)));
    assert_eq!(node.status().metrics, None);
    TcpStream::connect(("127.0.0.1", port)).unwrap_err();
    node.stop();
    nrid.wait_for_exit();
}

#[test]
fn slow_clients_are_dropped_and_a_foreign_file_is_not_replaced() {
    let node = Node::new("");
    let socket = node.path("metrics.sock");
    fs::write(&socket, "kept").unwrap();
    node.configure(&unix_configuration(&socket));
    let nrid = node.start();
    let status = node.status();
    assert!(status.problems.iter().any(|p| p.contains("is not a socket")), "{status:?}");
    assert_eq!(fs::read_to_string(&socket).unwrap(), "kept");
    fs::remove_file(&socket).unwrap();
    wait_until("the socket", || node.status().metrics);

    // More than are served at the same time: the scrape waits until the first of them are dropped.
    let slow: Vec<_> = (0..10).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    slow.iter().for_each(|mut stream| stream.write_all(b"GET /metr").unwrap());
    let start = Instant::now();
    scrape_socket(&socket);
    assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
    let mut rest = Vec::new();
    slow.first().unwrap().read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    node.stop();
    nrid.wait_for_exit();
}
