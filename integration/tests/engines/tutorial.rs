//! A plugin of the Rust SDK, made of the tutorial alone, under containerd's own NRI.

use crate::{
    cri::{Pod, WAIT, pid},
    own_nri::for_each_with_nri,
};
use nri_integration::{engines::*, *};
use serde_json::json;

#[test]
fn a_plugin_of_the_tutorial_adjusts_pods_under_containerds_own_nri() {
    for_each_with_nri("tutorial under containerd's NRI", |suite| {
        // The launched plugin adjusts no container, since none has this name.
        let filter = "[filter]\nname = 'unknown'\n";
        let (containerd, _launched) =
            Containerd::start_with_nri(suite, "10-adjust", &Program::Adjust, filter);
        let socket = containerd.dir().join("nri.sock");
        let plugin = Newcomer::start(tutorial_plugin(), &socket, &containerd.path(""));
        plugin.wait_for_synchronizations(1);
        let pod = Pod::run(&containerd, "web");
        let check = |name: &str| {
            let id = pod.start(name, &json!({}), &WAIT);
            let process = containerd.process(pid(&containerd, &id));
            let greeting = process.env("WELCOME").unwrap_or_default();
            assert_eq!(greeting, format!("I am {name}"), "{}", plugin.messages());
            assert_eq!(process.env("OWN").as_deref(), Some("1"));
        };
        check("one");
        // The plugin connects again, and is synchronized with the containers that exist.
        containerd.halt();
        containerd.resume();
        plugin.wait_for_synchronizations(2);
        check("two");
        let messages = plugin.messages();
        assert!(messages.contains("50-welcome: registered with containerd"), "{messages}");
        assert!(plugin.terminate().success());
        pod.remove();
    });
}
