//! Test of the name and image of a container, which `nrid` reads from the lists of containers that
//! the library containers/storage writes.

use crate::adjusted::*;
use nri_integration::engines::*;
use serde_json::{Value, json};

#[test]
fn plugins_see_names_images_annotations_and_addresses_of_podman() {
    for_each::<Podman>("names", |suite, go_plugin| {
        let adjusted = Adjusted::with(Podman::start(suite), go_plugin, &json!({}));
        let podman = &adjusted.engine;
        let options =
            ["--hostname", "inside", "--label", "a=b", "--annotation", "example.org/key=value"];
        // Without --network, the container is connected to Podman's bridge, which is in the network
        // namespace of the test.
        let id = podman.run_detached("web", &[&options, &[IMAGE][..], &WAIT].concat());
        let networks = &podman.inspect("web")["NetworkSettings"]["Networks"];
        let address = networks["podman"]["IPAddress"].as_str().unwrap_or_default();
        assert!(address.starts_with("10."), "{networks}");

        let requested = adjusted.plugin.journal.wait_for("CreateContainer", &id);
        let (pod, container) = (&requested["pod"], &requested["container"]);
        assert_eq!((&container["id"], &container["podSandboxId"]), (&json!(id), &json!(id)));
        assert_eq!(container["name"], "web");
        assert_eq!(container["image"]["name"], IMAGE);
        assert_eq!(container["annotations"]["example.org/key"], "value");
        assert_eq!(pod["annotations"]["example.org/key"], "value");
        assert_eq!(
            container["labels"],
            Value::Null,
            "plugins received labels, although they are only in libpod's database, which nrid \
                cannot read"
        );
        assert_eq!(pod["linux"]["cgroupParent"], "/libpod_parent");
        let started = adjusted.plugin.journal.wait_for("StartContainer", &id);
        let ips = started["pod"]["ips"].as_array().cloned().unwrap_or_default();
        assert!(ips.contains(&json!(address)), "{ips:?}, {address}");
    });
}
