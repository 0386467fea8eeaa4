//! The form of requests for descriptions, and of their replies.

use nri_control::{
    ContainerDescription, ContainerSummary, Describe, Description, EncodedDescription, ObjectKind,
    Page, Reply, Request,
};
use serde_json::json;

#[test]
fn a_description_survives_a_reply() {
    let summary = ContainerSummary { id: "c1".to_owned(), ..ContainerSummary::default() };
    let described = Description::Container(Box::new(ContainerDescription {
        summary: summary.clone(),
        requested: json!({"memory": {"limit": 9_223_372_036_854_771_712_u64}}),
        ..ContainerDescription::default()
    }));
    let page = Page { entries: vec![summary], next: Some("c1".to_owned()) };
    for description in [described, Description::Containers(page)] {
        let reply = Reply::Description(EncodedDescription::new(&description).unwrap());
        let text = serde_json::to_string(&reply).unwrap();
        let read: Reply = serde_json::from_str(&text).unwrap();
        assert_eq!(read, reply);
        let Reply::Description(read) = read else { panic!("{read:?}") };
        assert_eq!(read.decode().unwrap(), description);
    }
}

#[test]
fn requests_have_this_form() {
    for (request, text) in [
        (Describe::Containers { after: None }, r#"{"containers":{"after":null}}"#),
        (
            Describe::Object { id: "c1".to_owned(), kind: Some(ObjectKind::Pod), recorded: false },
            r#"{"object":{"id":"c1","kind":"pod"}}"#,
        ),
    ] {
        let text = format!("{{\"describe\":{text}}}");
        let request = Request::Describe(request);
        assert_eq!(serde_json::to_string(&request).unwrap(), text);
        assert_eq!(serde_json::from_str::<Request>(&text).unwrap(), request);
    }
}
