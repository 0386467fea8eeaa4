//! Every fault of a plugin at every call: the other plugins, the containers and the time that it all takes.
//!
//! The faulty plugin is at the other end of a real socket, between two good ones. The clock stands still while anything can happen, so that what is
//! measured is what is waited for: the timeout of a call, and nothing else.

use crate::raw::{self, Fault};
use crate::rig::*;
use crate::subscriptions::{ALL, everything};
use nri_adaptation::Config;
use nri_api::proto::Event::{self, *};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// One call's timeout, and all that may be lost to one faulty plugin.
const TIMEOUT: Duration = Duration::from_secs(2);

/// As the protocol calls it.
fn method(event: Event) -> String {
    let words = format!("{event:?}").to_lowercase();
    words.split('_').map(|word| word[..1].to_uppercase() + &word[1..]).collect()
}

/// Two good plugins, and between them one with these events that goes wrong at this call.
async fn rig(events: &[Event], at: &str, fault: Fault) -> (Rig, [Peer; 2], JoinHandle<bool>) {
    let rig = Rig::with(Config { request_timeout: TIMEOUT, ..Config::default() }).await;
    let good = [rig.plugin("10-a", &[], Quiet).await, rig.plugin("30-c", &[], Quiet).await];
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (events, at) = (events.iter().copied().collect(), at.to_owned());
    tokio::spawn(async move { raw::plugin(theirs, "20-b", events, &at, fault).await });
    let adaptation = rig.adaptation.clone();
    let connecting = tokio::spawn(async move { adaptation.connect(ours, None).await.is_ok() });
    (rig, good, connecting)
}

/// The good plugins have heard of all events, in order, since they had heard of so many.
fn check_heard(rig: &Rig, before: usize, context: &str) {
    let expected: Vec<_> = ALL.iter().map(|(_, heard)| *heard).collect();
    for name in ["10-a", "30-c"] {
        assert_eq!(rig.log.of(name)[before..], expected, "{name}, {context}");
    }
}

/// Answers without content take any message for themselves, with fields of a newer protocol.
fn is_no_fault(event: Event, fault: Fault) -> bool {
    let with_content = [CREATE_CONTAINER, UPDATE_CONTAINER, STOP_CONTAINER, VALIDATE_CONTAINER_ADJUSTMENT];
    fault == Fault::OtherMessage && !with_content.contains(&event)
}

/// One cell: returns when the plugin is gone and the others have gone on without it.
async fn check(event: Event, fault: Fault) {
    let context = format!("{fault:?} at {event:?}");
    // To no other: a validator that is gone rejects, whatever it went at.
    let (rig, _good, connecting) = rig(&[event], &method(event), fault).await;
    assert!(connecting.await.unwrap(), "{context}");
    assert_eq!(rig.names(), ["10-a", "20-b", "30-c"], "{context}");

    let begin = Instant::now();
    let errors = everything(&rig).await;
    assert!(begin.elapsed() <= TIMEOUT, "{context}: {:?}", begin.elapsed());
    // What a validator does not say is no consent; everything else goes on without the plugin.
    if event == VALIDATE_CONTAINER_ADJUSTMENT {
        assert_eq!(errors.len(), 1, "{context}: {errors:?}");
        let start = "plugin 20-b could not be asked for VALIDATE_CONTAINER_ADJUSTMENT of c: ";
        assert!(errors[0].starts_with(start), "{context}: {errors:?}");
    } else {
        assert_eq!(errors, [""; 0], "{context}");
    }
    check_heard(&rig, 1, &context);

    if is_no_fault(event, fault) {
        settle().await;
        assert_eq!(rig.names(), ["10-a", "20-b", "30-c"], "{context}");
        return;
    }
    let gone = timeout(Duration::from_secs(50), rig.log.wait("host 20-b Closed"));
    gone.await.unwrap_or_else(|_| panic!("{context}: it stays"));
    assert_eq!(rig.names(), ["10-a", "30-c"], "{context}");
    let (begin, before) = (Instant::now(), rig.log.of("10-a").len());
    assert_eq!(everything(&rig).await, [""; 0], "{context}");
    assert_eq!(begin.elapsed(), Duration::ZERO, "{context}");
    check_heard(&rig, before, &context);
}

#[tokio::test(start_paused = true)]
async fn at_every_event() {
    let mut cells = 0;
    for fault in Fault::ALL {
        for (event, _) in ALL {
            check(event, fault).await;
            cells += 1;
        }
    }
    assert_eq!(cells, 13 * 14);
}

#[tokio::test(start_paused = true)]
async fn while_a_plugin_comes_up() {
    for fault in Fault::ALL {
        for at in ["Configure", "Synchronize"] {
            let context = format!("{fault:?} at {at}");
            let (rig, _good, connecting) = rig(&[CREATE_CONTAINER], at, fault).await;
            let begin = Instant::now();
            assert_eq!(everything(&rig).await, [""; 0], "{context}");
            assert!(!connecting.await.unwrap(), "{context}");
            assert!(begin.elapsed() <= TIMEOUT, "{context}: {:?}", begin.elapsed());
            rig.log.wait("host 20-b Closed").await;
            assert_eq!(rig.names(), ["10-a", "30-c"], "{context}");
            check_heard(&rig, 1, &context);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn who_never_registers_is_in_nobodys_way() {
    let rig = Rig::new().await;
    let _good = [rig.plugin("10-a", &[], Quiet).await, rig.plugin("30-c", &[], Quiet).await];
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let adaptation = rig.adaptation.clone();
    let connecting = tokio::spawn(async move { adaptation.connect(ours, Some(7)).await });
    settle().await;
    let begin = Instant::now();
    assert_eq!(everything(&rig).await, [""; 0]);
    assert_eq!(begin.elapsed(), Duration::ZERO);
    check_heard(&rig, 1, "never registering");
    assert_eq!(connecting.await.unwrap().unwrap_err().to_string(), "did not register within 5s");
    assert_eq!(begin.elapsed(), Duration::from_secs(5));
    let seen = rig.adaptation.plugins().pop().unwrap();
    assert_eq!((seen.pid, seen.last_error.as_deref()), (Some(7), Some("did not register within 5s")));
}
