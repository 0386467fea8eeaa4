//! Calls between the two ends of a session, in both directions, and the errors of failed calls.

mod common;

use common::*;
use nri_api::{MAX_MESSAGE, proto::*};
use nri_wire::{
    CallError, Closed, Decoder, PLUGIN_SERVICE, PluginEnd, RUNTIME_SERVICE, RuntimeEnd, Trunk,
    fits, max_message, message_size,
};
use std::{sync::Arc, time::Duration};
use tokio::{io::AsyncReadExt, net::UnixStream};
use ttrpc::{
    Code, Request, Response,
    proto::{Codec, GenMessage, MESSAGE_TYPE_DATA, MESSAGE_TYPE_REQUEST},
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn both_ends_call_at_the_same_time() {
    // A narrow pipe splits frames into many pieces.
    for pipe in [1, 3, 64, 100_000] {
        let (a, b) = tokio::io::duplex(pipe);
        let s = session_over(Trunk::new(a), Trunk::new(b)).await;
        let registration = RegisterPluginRequest { plugin_name: "p".into(), ..Default::default() };
        s.end.runtime().register_plugin(SECOND, &registration).await.unwrap();
        // The plugin calls the runtime while it handles a call.
        let (updated, plain) = (create("update"), create("plain"));
        let (updated, plain) = tokio::join!(
            s.runtime.plugin().create_container(None, &updated),
            s.runtime.plugin().create_container(None, &plain)
        );
        assert_eq!(updated.unwrap().update[0].container_id, "other");
        assert_eq!(plain.unwrap().adjust.args, ["plain"]);
    }
}

#[tokio::test]
async fn an_error_of_the_peer_has_its_code_and_message() {
    let s = session().await;
    let plugin = s.runtime.plugin();
    let check = async |id: &str, code: Code, text: &str| match plugin
        .create_container(SECOND, &create(id))
        .await
    {
        Err(CallError::Status { code: c, message }) => {
            assert_eq!((c, message.contains(text)), (code as i32, true), "{id}: {message}");
        }
        other => panic!("{id}: {other:?}"),
    };
    check("refuse", Code::FAILED_PRECONDITION, "not this one").await;
    check("panic", Code::INTERNAL, "panicked").await;
    check("huge", Code::RESOURCE_EXHAUSTED, "more than the 4194304 allowed").await;
    // A call that the plugin does not implement fails; the next call succeeds.
    let error = plugin.run_pod_sandbox(SECOND, &RunPodSandboxRequest::new()).await.unwrap_err();
    assert!(error.is_unimplemented(), "{error}");
    plugin.create_container(SECOND, &create("plain")).await.unwrap();
}

#[tokio::test]
async fn a_request_that_is_too_large_fails_before_it_is_sent() {
    let mut s = session().await;
    let max = max_message(PLUGIN_SERVICE, "CreateContainer", Some(SECOND));
    let mut request = create("plain");
    let without_name = message_size(&request);
    // The ten bytes are room for tags and lengths; `rest` fills what is left of them.
    request.pod.mut_or_insert_default().name = "x".repeat(max - without_name - 10);
    let rest = "x".repeat(max - message_size(&request));
    request.pod.mut_or_insert_default().name.push_str(&rest);
    assert_eq!(message_size(&request), max);
    assert!(fits(PLUGIN_SERVICE, "CreateContainer", Some(SECOND), &request));
    s.runtime.plugin().create_container(SECOND, &request).await.unwrap();
    assert_eq!(s.done.recv().await.unwrap(), "plain");

    request.pod.mut_or_insert_default().name.push('x');
    assert!(!fits(PLUGIN_SERVICE, "CreateContainer", Some(SECOND), &request));
    let error = s.runtime.plugin().create_container(SECOND, &request).await.unwrap_err();
    assert!(matches!(error, CallError::TooLarge { size } if size == MAX_MESSAGE + 1), "{error}");
    // The limit differs in the other direction: its service has a longer name.
    assert_eq!(max_message(RUNTIME_SERVICE, "CreateContainer", Some(SECOND)), max - 1);
    s.runtime.plugin().create_container(SECOND, &create("after")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_is_dropped_and_the_session_continues() {
    let mut s = session().await;
    let plugin = s.runtime.plugin();
    let error = plugin.create_container(SECOND, &create("wait")).await.unwrap_err();
    assert!(matches!(error, CallError::Timeout(SECOND)), "{error}");
    // The deadline of the peer did not cancel the handler.
    s.plugin.continue_wait.notify_one();
    assert_eq!(s.done.recv().await.unwrap(), "wait");
    assert_eq!(
        plugin.create_container(SECOND, &create("next")).await.unwrap().adjust.args,
        ["next"]
    );
}

#[tokio::test]
async fn the_session_continues_after_a_dropped_call() {
    let mut s = session().await;
    let plugin = s.runtime.plugin().clone();
    let call = tokio::spawn(async move { plugin.create_container(None, &create("wait")).await });
    // A reply to a later call shows that the first one was sent.
    s.runtime.plugin().create_container(None, &create("later")).await.unwrap();
    assert_eq!(s.done.recv().await.unwrap(), "later");
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    s.plugin.continue_wait.notify_one();
    assert_eq!(s.done.recv().await.unwrap(), "wait");
    s.runtime.plugin().create_container(None, &create("next")).await.unwrap();
}

#[tokio::test]
async fn the_end_of_the_session_fails_its_calls() {
    for local in [true, false] {
        let mut s = session().await;
        let plugin = s.runtime.plugin().clone();
        let call =
            tokio::spawn(async move { plugin.create_container(None, &create("wait")).await });
        s.runtime.plugin().create_container(None, &create("later")).await.unwrap();
        if local {
            s.runtime.close()
        } else {
            s.end.close()
        }
        let expect =
            |r: &Closed| matches!((r, local), (Closed::Local, true) | (Closed::Peer, false));
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, CallError::Closed(Some(r)) if expect(r)), "{error:?}");
        assert!(expect(&s.runtime.closed().await));
        let error = s.runtime.plugin().create_container(None, &create("dead")).await.unwrap_err();
        assert!(matches!(&error, CallError::Closed(Some(r)) if expect(r)), "{error:?}");
        assert!(error.is_fatal());
        // A handler in progress completes after the end of the session.
        assert_eq!(s.done.recv().await.unwrap(), "later");
        s.plugin.continue_wait.notify_one();
        assert_eq!(s.done.recv().await.unwrap(), "wait");
    }
}

#[tokio::test]
async fn dropping_an_end_closes_it() {
    let (a, b) = UnixStream::pair().unwrap();
    let runtime = RuntimeEnd::new(a, Arc::new(TestRuntime::default())).await.unwrap();
    struct Nothing;
    impl nri_wire::Plugin for Nothing {}
    let end = PluginEnd::new(b, Arc::new(Nothing)).await.unwrap();
    let client = runtime.plugin().clone();
    assert!(client.shutdown(None, &Empty::new()).await.unwrap_err().is_unimplemented());
    drop(runtime);
    assert!(matches!(end.closed().await, Closed::Peer));
    assert!(matches!(
        client.shutdown(None, &Empty::new()).await,
        Err(CallError::Closed(Some(Closed::Local)))
    ));
}

#[tokio::test]
async fn an_invalid_reply_fails_the_call_or_ends_the_session() {
    enum Call {
        Succeeds,
        Fails(fn(&CallError) -> bool),
    }
    async fn check(name: &str, replies: Vec<GenMessage>, call: Call, closed: Option<&str>) {
        let (runtime, peer) = session_with_raw_peer().await;
        let mut conn = peer.open(id(1)).unwrap();
        let replying = async {
            let request = GenMessage::read_from(&mut conn).await.unwrap();
            assert_eq!(request.header.stream_id, 1);
            for reply in &replies {
                reply.write_to(&mut conn).await.unwrap();
            }
        };
        let request = Empty::new();
        let (result, ()) = tokio::join!(runtime.plugin().shutdown(None, &request), replying);
        match (result, call) {
            (Ok(_), Call::Succeeds) => {}
            (Err(e), Call::Fails(expect)) if expect(&e) => {}
            (result, _) => panic!("{name}: {result:?}"),
        }
        match closed {
            Some(text) => {
                let reason = runtime.closed().await;
                let source = std::error::Error::source(&reason).unwrap().to_string();
                assert!(
                    source.contains(text) && reason.is_violation(),
                    "{name}: {reason}: {source}"
                );
            }
            None => assert!(runtime.trunk().close_reason().is_none(), "{name}"),
        }
    }
    fn violation(e: &CallError) -> bool {
        matches!(e, CallError::Closed(Some(Closed::Message { conn, .. })) if *conn == id(1))
    }
    let good = || raw_response(1, vec![]);
    let status = |code: i32, text: &str| {
        let mut response = Response::new();
        response.mut_status().code = protobuf::EnumOrUnknown::from_i32(code);
        response.mut_status().message = text.into();
        raw_response(1, response.encode().unwrap())
    };
    let is_status =
        |e: &CallError| matches!(e, CallError::Status { code: 99, message } if message == "odd");
    check("good", vec![good()], Call::Succeeds, None).await;
    check("for another call", vec![raw_response(77, vec![1]), good()], Call::Succeeds, None).await;
    check("twice", vec![good(), good(), raw_response(1, vec![0xff])], Call::Succeeds, None).await;
    check("an unknown code", vec![status(99, "odd")], Call::Fails(is_status), None).await;
    // Status 4 is DEADLINE_EXCEEDED, here of a call that the plugin made.
    check(
        "a deadline within the plugin",
        vec![status(4, "slow database")],
        Call::Fails(|e| matches!(e, CallError::Status { code: 4, .. })),
        None,
    )
    .await;
    let malformed = |e: &CallError| matches!(e, CallError::Malformed(_));
    check("no protobuf", vec![raw_response(1, vec![0xff; 9])], Call::Fails(malformed), None).await;
    let mut inner = Response::new();
    inner.payload = vec![0xff; 9];
    let inner = raw_response(1, inner.encode().unwrap());
    check("no protobuf within", vec![inner], Call::Fails(malformed), None).await;
    let unexpected = Some("unexpected message");
    let request = raw(MESSAGE_TYPE_REQUEST, 1, vec![]);
    check("a request", vec![request], Call::Fails(violation), unexpected).await;
    let data = raw(MESSAGE_TYPE_DATA, 1, vec![]);
    check("a stream", vec![data], Call::Fails(violation), unexpected).await;
    check("nonsense", vec![raw(0, 1, vec![])], Call::Fails(violation), Some("unknown type 0"))
        .await;
    let mut large = good();
    large.header.length = MAX_MESSAGE as u32 + 1;
    check("too large", vec![large], Call::Fails(violation), Some("4194305 bytes")).await;
}

#[tokio::test]
async fn an_invalid_request_gets_an_error_or_ends_the_session() {
    async fn check(name: &str, request: GenMessage, expect: Result<Code, &str>) {
        let (runtime, peer) = session_with_raw_peer().await;
        let mut conn = peer.open(id(2)).unwrap();
        request.write_to(&mut conn).await.unwrap();
        match expect {
            Ok(code) => {
                let reply = GenMessage::read_from(&mut conn).await.unwrap();
                let reply = Response::decode(&reply.payload).unwrap();
                assert_eq!(reply.status.code(), code, "{name}: {reply}");
                assert!(runtime.trunk().close_reason().is_none(), "{name}");
            }
            Err(text) => {
                let reason = runtime.closed().await;
                let source = std::error::Error::source(&reason).unwrap().to_string();
                assert!(
                    source.contains(text) && reason.is_violation(),
                    "{name}: {reason}: {source}"
                );
            }
        }
    }
    let request = |service: &str, method: &str, payload: Vec<u8>| {
        let mut request = Request::new();
        (request.service, request.method, request.payload) =
            (service.into(), method.into(), payload);
        request.encode().unwrap()
    };
    let request_message = |payload| raw(MESSAGE_TYPE_REQUEST, 1, payload);
    let register = || request(RUNTIME_SERVICE, "RegisterPlugin", vec![]);
    check("good", request_message(register()), Ok(Code::OK)).await;
    check(
        "unknown method",
        request_message(request(RUNTIME_SERVICE, "Fly", vec![])),
        Ok(Code::UNIMPLEMENTED),
    )
    .await;
    check(
        "unknown service",
        request_message(request("x", "Fly", vec![])),
        Ok(Code::INVALID_ARGUMENT),
    )
    .await;
    check("no protobuf", request_message(vec![0xff; 9]), Ok(Code::INVALID_ARGUMENT)).await;
    let inner = request(RUNTIME_SERVICE, "RegisterPlugin", vec![0xff; 9]);
    check("no protobuf within", request_message(inner), Ok(Code::UNKNOWN)).await;
    check("even stream", raw(MESSAGE_TYPE_REQUEST, 2, register()), Ok(Code::INVALID_ARGUMENT))
        .await;
    check("unknown stream", raw(MESSAGE_TYPE_DATA, 9, vec![]), Ok(Code::INVALID_ARGUMENT)).await;
    let mut negative = Request::decode(register()).unwrap();
    negative.timeout_nano = -1;
    check("negative timeout", request_message(negative.encode().unwrap()), Ok(Code::OK)).await;
    check("a reply", raw_response(1, vec![]), Err("unexpected message")).await;
    check("nonsense", raw(200, 1, vec![]), Err("unknown type 200")).await;
    let mut large = request_message(vec![]);
    large.header.length = u32::MAX;
    check("too large", large, Err("4294967295 bytes")).await;
}

/// Upstream's multiplexer reads headers through a buffer of 4096 bytes and fails on a larger frame,
/// except while it reads the payload of a message. It closes the trunk when 256 frames are unread.
#[tokio::test]
async fn frames_fit_the_reader_of_upstream_nri() {
    let (a, mut b) = UnixStream::pair().unwrap();
    let runtime = RuntimeEnd::new(a, Arc::new(TestRuntime::default())).await.unwrap();
    for payload in [0, 100, 4000, 4050, 4086, 4096, 5000, 9000, 1 << 20, 4 << 20] {
        let mut request = create("x");
        // The envelope and the other fields take less than 200 bytes.
        request.pod.mut_or_insert_default().name = "x".repeat(payload.min(MAX_MESSAGE - 200));
        let plugin = runtime.plugin().clone();
        let call = tokio::spawn(async move { plugin.create_container(None, &request).await });
        let mut decoder = Decoder::new();
        let mut frames = Vec::new();
        let mut message = Vec::new();
        let is_complete = |message: &[u8]| {
            message
                .first_chunk::<4>()
                .is_some_and(|n| message.len() == 10 + u32::from_be_bytes(*n) as usize)
        };
        while !is_complete(&message) {
            let mut chunk = [0; 65536];
            let n = b.read(&mut chunk).await.unwrap();
            decoder.feed(&chunk[..n]);
            while let Some(frame) = decoder.next_frame().unwrap() {
                frames.push(frame.payload.len());
                message.extend_from_slice(&frame.payload);
            }
        }
        assert!(frames.len() <= 2, "{frames:?}");
        assert!(frames[0] <= 4096, "{frames:?}");
        call.abort();
    }
}
