//! The messages that the wrapper writes or reads without the types of this crate.

#![allow(clippy::unwrap_used)] // tests only

use nri_control::{Begin, PROTOCOL, Reply, Request, Substitute, Verb, Versioned};
use nri_files::OsText;
use nri_passthrough::{EXPECTED_REPLY, request::BeginRequest};

#[test]
fn the_message_of_the_wrapper_is_read_as_it_was_meant() {
    let texts = |list: &[&'static [u8]]| list.to_vec().into_iter();
    let minimal = BeginRequest {
        verb: Verb::Start,
        id: "c",
        runtime: b"/r",
        root: None,
        globals: texts(&[]),
        arguments: texts(&[b"c"]),
        bundle: None,
        config: None,
        cwd: b"/",
        environment: texts(&[]),
        resources: None,
        flag: false,
        hook: None,
    };
    let full = BeginRequest {
        verb: Verb::Run,
        id: "a.b\"\\\n\u{1f40b}",
        root: Some(b"/root"),
        globals: texts(&[b"--root", b"/root"]),
        arguments: texts(&[b"\xff", b""]),
        bundle: Some(b"/b"),
        config: Some(b"config.json"),
        environment: texts(&[b"A", b"B=\x01\x7f", b"C=\xfe"]),
        resources: Some("{}"),
        flag: true,
        hook: Some(b"/hook"),
        ..minimal.clone()
    };
    let read = |request: BeginRequest<'_, _, _, _>| {
        let mut bytes = Vec::new();
        request.write(&mut bytes).unwrap();
        let read: Versioned<Request> = serde_json::from_slice(&bytes).unwrap();
        assert_eq!((read.protocol, &*read.version), (PROTOCOL, env!("CARGO_PKG_VERSION")));
        read.message
    };
    let os = |bytes: &[u8]| {
        use std::os::unix::ffi::OsStrExt;
        OsText::from(std::ffi::OsStr::from_bytes(bytes))
    };
    let expected = Begin {
        verb: Verb::Start,
        id: "c".to_owned(),
        runtime: os(b"/r"),
        root: None,
        globals: vec![],
        arguments: vec![os(b"c")],
        bundle: None,
        config: None,
        cwd: os(b"/"),
        environment: vec![],
        resources: None,
        flag: false,
        hook: None,
        follow: true,
    };
    let begin = |begin: &Begin| Request::Begin(Box::new(begin.clone()));
    assert_eq!(read(minimal), begin(&expected));
    let expected = Begin {
        verb: Verb::Run,
        id: "a.b\"\\\n\u{1f40b}".to_owned(),
        root: Some(os(b"/root")),
        globals: vec![os(b"--root"), os(b"/root")],
        arguments: vec![os(b"\xff"), os(b"")],
        bundle: Some(os(b"/b")),
        config: Some(os(b"config.json")),
        environment: vec![os(b"A"), os(b"B=\x01\x7f"), os(b"C=\xfe")],
        resources: Some("{}".to_owned()),
        flag: true,
        hook: Some(os(b"/hook")),
        follow: false,
        ..expected
    };
    assert_eq!(read(full), begin(&expected));
}

/// The wrapper compares the reply before it can read JSON.
#[test]
fn the_reply_with_which_a_wrapper_becomes_the_runtime_has_this_text() {
    let reply = Reply::Proceed(Substitute { exec: true, ..Substitute::default() });
    assert_eq!(serde_json::to_string(&Versioned::ours(reply)).unwrap(), EXPECTED_REPLY);
}
