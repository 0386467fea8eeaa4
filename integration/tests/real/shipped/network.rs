//! A network device is moved into the network namespace of a pod, and back.

use super::install;
use nri_integration::*;
use std::process::{Command, Output};

/// Name of the device on the host.
const DEVICE: &str = "nri-shipped";

/// A network namespace. Dropping this value deletes the namespace and the device.
struct Network(String);

impl Network {
    /// Creates both; `None` if the kernel has no TUN driver.
    fn new() -> Option<Self> {
        let network = Self(format!("nri-shipped-{}", std::process::id()));
        if !ip(&["tuntap", "add", "dev", DEVICE, "mode", "tap"]) {
            return None;
        }
        assert!(ip(&["netns", "add", &network.0]));
        Some(network)
    }

    /// Whether the device has this name, and the address, in the namespace.
    fn has(&self, name: &str) -> bool {
        let output = ip_command(&["netns", "exec", &self.0, "ip", "addr", "show", name]);
        let text = String::from_utf8_lossy(&output.stdout);
        output.status.success() && text.contains("192.0.2.2/24") && text.contains("mtu 1400")
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
        ip(&["link", "delete", DEVICE]);
    }
}

/// Runs `ip` in the mount namespace of the runtimes, where the namespaces are mounted.
fn ip_command(arguments: &[&str]) -> Output {
    let mut command = Command::new("ip");
    command.args(arguments);
    command_after("true", &command).output().unwrap()
}

/// Runs `ip`, and returns whether it succeeded.
fn ip(arguments: &[&str]) -> bool {
    ip_command(arguments).status.success()
}

#[test]
fn a_network_device_is_moved_into_a_pod_and_back() {
    for_each_runtime("network-device-injector", |runtime| {
        let Some(network) = Network::new() else {
            limitation("network-device-injector", "there is no TUN driver");
            return;
        };
        let node = Node::new(runtime);
        install(&node, "network-device-injector", "");
        let device = format!(
            "- name: {DEVICE}\n  new_name: eth33\n  address: 192.0.2.2\n  prefix: 24\n  mtu: 1400"
        );
        let create = |name: &str, device: &str| {
            let id = node.id(name);
            let annotation = format!("netdevices.noderesource.dev={device}");
            let bundle = node.bundle(&id).annotation(&annotation).make();
            bundle.edit(|config| {
                let namespaces = config["linux"]["namespaces"].as_array_mut().unwrap();
                let net = namespaces.iter_mut().find(|n| n["type"] == "network").unwrap();
                net["path"] = format!("/var/run/netns/{}", network.0).into();
            });
            node.create(&bundle, &id)
        };
        create("c", &device).success();
        assert!(network.has("eth33"), "{}", node.log());
        assert!(!ip(&["link", "show", DEVICE]), "the device is on the host, too");
        node.call(&["delete", "--force", &node.id("c")]).success();
        wait_until("the device on the host", || ip(&["link", "show", DEVICE]).then_some(()));
        assert!(!network.has("eth33"));

        let line = create("absent", "- name: nri-absent").refusal();
        assert!(line.contains("network device nri-absent does not exist on the host"), "{line}");
    });
}
