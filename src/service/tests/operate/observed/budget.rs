//! What operators see of a plugin that exceeds its budget.

use super::metrics::{parse, scrape_socket, unix_configuration, value};
use crate::{
    create::{bundle_with, create},
    doctor::nrictl,
    node::{Node, Nrid, wait_until},
    wire_plugin::{UpdatesAtCreation, connect, wait_until_active},
};
use nri_control::{PluginBudget, Reply, Request};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::task::spawn_blocking;

/// `config.json` of a container.
const CONFIG: &str = r#"{"ociVersion":"1.0.2","process":{"args":["sh"],"cwd":"/","env":[]}}"#;

const POLICY: &str = "[[plugin]]\nmatch = '*'\nbudget = { time = '300ms', pause = '3s' }\n";

/// Creates a container, and returns whether the plugin was called.
fn is_called(node: &Node, id: &str) -> bool {
    let (reply, client) = create(node, id, &bundle_with(node, id, CONFIG));
    assert!(matches!(reply, Reply::Proceed(_)), "{reply:?}");
    let Reply::Verified(verified) = node.call(&Request::Verify { ids: vec![id.to_owned()] }) else {
        panic!("no reply about {id}");
    };
    drop(client);
    let missed = verified[0].missed.first();
    let why = "limited by its budget: more than 50% of recent containers took longer than 300ms";
    assert!(missed.is_none_or(|missed| missed.why == why), "{missed:?}");
    missed.is_none()
}

fn budget(node: &Node) -> PluginBudget {
    node.status().plugins.remove(0).budget.unwrap()
}

#[tokio::test]
async fn a_plugin_that_gets_slow_is_limited_until_it_is_fast() {
    let node = Arc::new(Node::new(""));
    let socket = node.path("m/metrics.sock");
    let metrics = unix_configuration(&socket);
    node.configure(&format!("{POLICY}{metrics}"));
    let nrid = node.start();
    let time = Arc::new(AtomicU64::new(500));
    let of_plugin = time.clone();
    let replies = move |_: &str| {
        std::thread::sleep(Duration::from_millis(of_plugin.load(Ordering::Relaxed)));
        Vec::new()
    };
    let _plugin = connect(&node, Arc::new(UpdatesAtCreation(replies))).await;
    let checked = node.clone();
    let check = move || {
        check_limit(&checked, &nrid, &socket, &time);
        checked.stop();
        nrid.wait_for_exit();
    };
    spawn_blocking(check).await.unwrap();
}

fn check_limit(node: &Node, nrid: &Nrid, socket: &Path, time: &AtomicU64) {
    wait_until_active(node);
    assert_eq!(budget(node).limit, None);
    for n in 0..5 {
        assert!(is_called(node, &format!("slow{n}")), "{n}");
    }
    assert!(!is_called(node, "skips"));
    let limit = budget(node).limit.unwrap();
    assert_eq!((limit.skipped, limit.next_try >= limit.since + 3), (1, true), "{limit:?}");
    let text = String::from_utf8(nrictl(node, &["status"]).stdout).unwrap();
    assert!(text.contains("10-test: limited by its budget for "), "{text}");
    let found = parse(&scrape_socket(socket));
    assert_eq!(value(&found, "nri_plugin_limited"), 1.0);
    assert_eq!(value(&found, "nri_plugin_limited_requests_total"), 1.0);

    time.store(0, Ordering::Relaxed);
    let mut ids = 0..;
    wait_until("a try", || is_called(node, &format!("fast{}", ids.next()?)).then_some(()));
    assert_eq!(budget(node).limit, None);
    assert!(is_called(node, "after"));
    assert_eq!(value(&parse(&scrape_socket(socket)), "nri_plugin_limited"), 0.0);
    for line in ["creations and updates skip it: more than 50% of", "replies in time again"] {
        assert_eq!(nrid.output().matches(line).count(), 1, "{line}: {}", nrid.output());
    }

    // The policy of a plugin that is required says that its budget has no effect.
    node.configure(&format!("{POLICY}required = true\n"));
    let reload = nrictl(node, &["reload"]);
    let text = String::from_utf8([reload.stdout, reload.stderr].concat()).unwrap();
    assert!(text.contains("budget has no effect because of required"), "{text}");
    assert_eq!(budget(node).exemption.unwrap(), "the plugin is required");
}
