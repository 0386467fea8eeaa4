//! Tests of spans over OTLP, with a collector on a loopback port.

use super::{
    metrics::{parse, scrape_socket, unix_configuration, value},
    trace::{PARENT, connect, contexts},
};
use crate::node::{Node, wait_until};
use nri_api::proto::{UpdateContainersRequest, UpdateContainersResponse};
use nri_wire::TraceContext;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};
use tokio::task::spawn_blocking;

/// What a collector has received.
type Bodies = Arc<Mutex<Vec<u8>>>;

/// Receives requests, and adds their bodies to `bodies`.
fn collect(stream: TcpStream, bodies: &Bodies) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            (reader.read_line(&mut head).ok()? > 0).then_some(())?;
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1\r\n"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf\r\n"), "{head}");
        let length = head.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).ok()?;
        bodies.lock().unwrap().extend(body);
        let reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        reader.get_mut().write_all(reply).ok()?;
    }
}

fn contains(bodies: &Bodies, part: &[u8]) -> bool {
    bodies.lock().unwrap().windows(part.len()).any(|window| window == part)
}

/// Whether there is a span with this parent: its fields, as protobuf encodes them.
fn has_span(bodies: &Bodies, context: &TraceContext, id: Option<u64>, parent: u64) -> bool {
    let trace = [&[0x0a, 16][..], &context.trace_id().to_be_bytes()].concat();
    let parent = [&[0x22, 8][..], &parent.to_be_bytes()].concat();
    let id = id.map(|id| [&[0x12, 8][..], &id.to_be_bytes()].concat()).unwrap_or_default();
    contains(bodies, &[trace, id].concat()) && contains(bodies, &parent)
}

#[tokio::test]
async fn spans_of_requests_and_calls_go_to_the_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap();
    let bodies = Bodies::default();
    let received = bodies.clone();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let received = received.clone();
            thread::spawn(move || collect(stream.unwrap(), &received));
        }
    });
    let node = Arc::new(Node::new(""));
    let socket = node.path("m");
    let configuration = |endpoint: &str| {
        format!("{}[tracing]\nendpoint = 'http://{endpoint}'\n", unix_configuration(&socket))
    };
    node.configure(&configuration(&endpoint.to_string()));
    let nrid = node.start();
    let (recorder, plugin) = connect(&node).await;
    let parent = TraceContext::new(PARENT, None).unwrap();

    // The plugin's request has a context of its own.
    let of_plugin = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let of_plugin = TraceContext::new(of_plugin, None).unwrap();
    let request = UpdateContainersRequest::new();
    let updated: UpdateContainersResponse =
        plugin.runtime().call("UpdateContainers", None, &request, Some(&of_plugin)).await.unwrap();
    assert!(updated.failed.is_empty());

    let checked = node.clone();
    let sent = bodies.clone();
    let socket_path = socket.clone();
    let unreachable = configuration("127.0.0.1:1");
    let check = move || {
        let (node, bodies, socket) = (checked, sent, socket_path);
        let environment = [&*format!("TRACEPARENT={PARENT}"), "TRACESTATE=a=1"];
        let calls = contexts(&node, &recorder, (&environment, &[]), "c1");
        assert_eq!(calls.len(), 3, "{calls:?}");
        wait_until("the spans", || contains(&bodies, b"ValidateContainerAdjustment").then_some(()));
        wait_until("the span of the request", || contains(&bodies, b"create").then_some(()));
        // The request is below the span of the engine, and each call has the span that the plugin
        // received.
        assert!(has_span(&bodies, &parent, None, parent.span_id()));
        let mut ids = Vec::new();
        for (call, context) in &calls {
            let context = context.as_ref().unwrap();
            assert_eq!(
                (context.trace_id(), context.tracestate()),
                (parent.trace_id(), Some("a=1"))
            );
            assert!(
                has_span(&bodies, &parent, Some(context.span_id()), parent.span_id()),
                "{call}"
            );
            ids.push(context.span_id());
        }
        ids.dedup();
        assert_eq!(ids.len(), 3);
        for name in ["UpdateContainers", "10-test", "container.id", "nrid"] {
            wait_until(name, || contains(&bodies, name.as_bytes()).then_some(()));
        }
        assert!(has_span(&bodies, &of_plugin, None, of_plugin.span_id()));

        // Without a context of the engine, nrid begins a trace; one that the engine does not record
        // is passed on.
        let calls = contexts(&node, &recorder, (&[], &[]), "c2");
        let contexts_of = |calls: &[(_, Option<TraceContext>)]| {
            calls.iter().map(|(_, context)| context.clone().unwrap()).collect::<Vec<_>>()
        };
        let found = contexts_of(&calls);
        assert!(found.iter().all(|context| context.trace_id() == found[0].trace_id()));
        let unsampled = PARENT.replace("-01", "-00");
        let variable = format!("TRACEPARENT={unsampled}");
        let calls = contexts(&node, &recorder, (&[&variable], &[]), "c3");
        assert!(contexts_of(&calls).iter().all(|context| context.traceparent() == unsampled));

        // Without a collector, spans are dropped and counted, and requests go on.
        let count = |name: &str| value(&parse(&scrape_socket(&socket)), name);
        wait_until("exported spans", || (count("nri_spans_exported_total") >= 9.0).then_some(()));
        assert_eq!(count("nri_spans_dropped_total"), 0.0);
        node.configure(&unreachable);
        node.call(&nri_control::Request::Reload);
        contexts(&node, &recorder, (&[], &[]), "c4");
        wait_until("dropped spans", || (count("nri_spans_dropped_total") >= 4.0).then_some(()));
        node.stop();
    };
    spawn_blocking(check).await.unwrap();
    let output = nrid.wait_for_exit();
    assert!(output.contains("the collector receives no spans, they are dropped"), "{output}");
}
