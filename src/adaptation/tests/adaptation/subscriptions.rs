//! Subscriptions: event masks, and StateChange for old plugins.

use crate::harness::*;
use async_trait::async_trait;
use nri_adaptation::{Adaptation, RequestContext};
use nri_api::EventMask;
use nri_api::proto::Event::*;
use nri_api::proto::*;
use nri_wire::ttrpc;

/// Sends every event once, for a pod `p` and a container `c`. Returns the errors.
pub(crate) async fn send_all_events(harness: &Harness) -> Vec<String> {
    let adaptation: &Adaptation = &harness.adaptation;
    let mut errors = Vec::new();
    // The tokens after the request are the other arguments of the method.
    macro_rules! send {
        ($method:ident($request:ident { $($field:ident: $value:expr),* }) $($commit:tt)*) => {{
            let request = $request { $($field: Some($value).into(),)* ..Default::default() };
            send!(@ adaptation.$method(request, $($commit)*).await)
        }};
        (@ $call:expr) => { if let Err(e) = $call { errors.push(e.to_string()) } };
    }
    let (p, c) = (pod("p"), container("c"));
    send!(
        run_pod_sandbox(RunPodSandboxRequest { pod: p.clone() }) & RequestContext::default(),
        async || ()
    );
    send!(
        update_pod_sandbox(UpdatePodSandboxRequest { pod: p.clone() }) & RequestContext::default(),
        async || ()
    );
    let pod_field = || Some(p.clone()).into();
    adaptation
        .post_update_pod_sandbox(PostUpdatePodSandboxRequest {
            pod: pod_field(),
            ..Default::default()
        })
        .await;
    send!(
        create_container(CreateContainerRequest { pod: p.clone(), container: c.clone() })
            & RequestContext::default(),
        async |_| (),
        async |()| ()
    );
    let container_field = || Some(c.clone()).into();
    adaptation
        .post_create_container(PostCreateContainerRequest {
            pod: pod_field(),
            container: container_field(),
            ..Default::default()
        })
        .await;
    send!(
        start_container(StartContainerRequest { pod: p.clone(), container: c.clone() })
            & RequestContext::default(),
        async || ()
    );
    adaptation
        .post_start_container(PostStartContainerRequest {
            pod: pod_field(),
            container: container_field(),
            ..Default::default()
        })
        .await;
    send!(
        update_container(UpdateContainerRequest { pod: p.clone(), container: c.clone() })
            & RequestContext::default(),
        async |_| ()
    );
    adaptation
        .post_update_container(PostUpdateContainerRequest {
            pod: pod_field(),
            container: container_field(),
            ..Default::default()
        })
        .await;
    let stop = StopContainerRequest {
        pod: pod_field(),
        container: container_field(),
        ..Default::default()
    };
    let failures = adaptation.stop_container(stop, async |outcome| outcome.failures).await;
    errors.extend(failures.iter().map(ToString::to_string));
    let remove = RemoveContainerRequest {
        pod: pod_field(),
        container: container_field(),
        ..Default::default()
    };
    adaptation.remove_container(remove, async || ()).await;
    adaptation
        .stop_pod_sandbox(
            StopPodSandboxRequest { pod: pod_field(), ..Default::default() },
            async || (),
        )
        .await;
    adaptation
        .remove_pod_sandbox(
            RemovePodSandboxRequest { pod: pod_field(), ..Default::default() },
            async || (),
        )
        .await;
    errors
}

/// Events in the order of [`send_all_events`], and their entries in the plugin's log.
pub(crate) const ALL_EVENTS: [(Event, &str); 14] = [
    (RUN_POD_SANDBOX, "run_pod_sandbox p"),
    (UPDATE_POD_SANDBOX, "update_pod_sandbox p"),
    (POST_UPDATE_POD_SANDBOX, "post_update_pod_sandbox p"),
    (CREATE_CONTAINER, "create_container c"),
    (VALIDATE_CONTAINER_ADJUSTMENT, "validate_container_adjustment c"),
    (POST_CREATE_CONTAINER, "post_create_container c"),
    (START_CONTAINER, "start_container c"),
    (POST_START_CONTAINER, "post_start_container c"),
    (UPDATE_CONTAINER, "update_container c"),
    (POST_UPDATE_CONTAINER, "post_update_container c"),
    (STOP_CONTAINER, "stop_container c"),
    (REMOVE_CONTAINER, "remove_container c"),
    (STOP_POD_SANDBOX, "stop_pod_sandbox p"),
    (REMOVE_POD_SANDBOX, "remove_pod_sandbox p"),
];

#[tokio::test(start_paused = true)]
async fn a_plugin_receives_only_the_events_that_it_subscribed_to() {
    assert_eq!(ALL_EVENTS.iter().map(|(e, _)| *e).collect::<EventMask>(), EventMask::ALL);
    let single = ALL_EVENTS.iter().map(|(event, received)| (vec![*event], vec![*received]));
    let every = (vec![], ALL_EVENTS.iter().map(|(_, received)| *received).collect());
    for (events, received) in single.chain([every]) {
        let harness = Harness::new().await;
        let _peer = harness.plugin("10-a", &events, Quiet).await;
        assert_eq!(send_all_events(&harness).await, [""; 0]);
        assert_eq!(harness.log.of("10-a")[1..], received, "subscribed to {events:?}");
        for (event, _) in ALL_EVENTS {
            // Validators also need the request for a creation.
            let validates =
                event == CREATE_CONTAINER && events.contains(&VALIDATE_CONTAINER_ADJUSTMENT);
            let is_needed = events.is_empty() || events.contains(&event) || validates;
            assert_eq!(
                harness.adaptation.needs_request(event),
                is_needed,
                "{event:?} with {events:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn without_plugins_no_request_is_needed_and_every_event_succeeds() {
    let harness = Harness::new().await;
    assert_eq!(send_all_events(&harness).await, [""; 0]);
    assert!(ALL_EVENTS.iter().all(|(event, _)| !harness.adaptation.needs_request(*event)));
}

/// A plugin that supports events only as StateChange, or not at all.
struct OldPlugin {
    state_change: bool,
}

#[async_trait]
impl Script for OldPlugin {
    async fn event(&self, _: Event, _: &str) -> ttrpc::Result<()> {
        Err(unimplemented())
    }
    async fn state_change_event(&self, _: Event, _: &str) -> ttrpc::Result<()> {
        if self.state_change { Ok(()) } else { Err(unimplemented()) }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_plugin_receives_state_change_and_each_unimplemented_call_is_tried_once() {
    let harness = Harness::new().await;
    let events: Vec<_> =
        ALL_EVENTS.iter().map(|(e, _)| *e).filter(|e| *e != UPDATE_POD_SANDBOX).collect();
    let _peer = harness.plugin("10-a", &events, OldPlugin { state_change: true }).await;
    assert_eq!(send_all_events(&harness).await, [""; 0]);
    assert_eq!(send_all_events(&harness).await, [""; 0]);

    let dedicated = [
        CREATE_CONTAINER,
        UPDATE_CONTAINER,
        STOP_CONTAINER,
        VALIDATE_CONTAINER_ADJUSTMENT,
        UPDATE_POD_SANDBOX,
    ];
    let old = |event: &Event, received: &str| {
        let subject = received.split_once(' ').unwrap().1;
        format!("state_change {event:?} {subject}")
    };
    let mut expected = vec!["synchronize ".to_owned()];
    for first in [true, false] {
        for (event, received) in ALL_EVENTS.iter().filter(|(e, _)| *e != UPDATE_POD_SANDBOX) {
            let new = dedicated.contains(event);
            expected.extend((new || first).then(|| received.to_string()));
            expected.extend((!new).then(|| old(event, received)));
        }
    }
    assert_eq!(harness.log.of("10-a"), expected);
}

#[tokio::test(start_paused = true)]
async fn an_event_fails_if_the_plugin_implements_neither_its_call_nor_state_change() {
    let harness = Harness::new().await;
    let _peer = harness.plugin("10-a", &[], OldPlugin { state_change: false }).await;
    let refused =
        |event, subject| format!("plugin 10-a failed {event:?} of {subject}: not implemented");
    assert_eq!(
        send_all_events(&harness).await,
        [
            refused(RUN_POD_SANDBOX, "p"),
            refused(UPDATE_POD_SANDBOX, "p"),
            refused(START_CONTAINER, "c")
        ]
    );
    assert_eq!(harness.active_plugins(), ["10-a"], "the error closed the connection");
}
