//! Who a container is to plugins: its name and image are in the lists of containers/storage.

use super::*;

#[test]
fn names_image_annotations_and_addresses() {
    for_each("podman, names", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &json!({}));
        let podman = &adjusted.podman;
        let options =
            ["--hostname", "inside", "--label", "a=b", "--annotation", "example.org/key=value"];
        // On the bridge of a network namespace of its own.
        let id = podman.run_detached("web", &[&options, &[IMAGE][..], &WAIT].concat());
        let networks = &podman.inspect("web")["NetworkSettings"]["Networks"];
        let address = networks["podman"]["IPAddress"].as_str().unwrap_or_default();
        assert!(address.starts_with("10."), "{networks}");

        let asked = adjusted.plugin.journal.wait_for("CreateContainer", &id);
        let (pod, container) = (&asked["pod"], &asked["container"]);
        assert_eq!((&container["id"], &container["podSandboxId"]), (&json!(id), &json!(id)));
        assert_eq!(container["name"], "web");
        assert_eq!(container["image"]["name"], IMAGE);
        assert_eq!(container["annotations"]["example.org/key"], "value");
        assert_eq!(pod["annotations"]["example.org/key"], "value");
        assert_eq!(container["labels"], Value::Null, "they are nowhere but in libpod's database");
        assert_eq!(pod["linux"]["cgroupParent"], "/libpod_parent");
        let started = adjusted.plugin.journal.wait_for("StartContainer", &id);
        let ips = started["pod"]["ips"].as_array().cloned().unwrap_or_default();
        assert!(ips.contains(&json!(address)), "{ips:?}, {address}");
    });
}

#[test]
fn a_plugin_can_match_names_and_comes_late() {
    for_each("podman, matched by name", |suite, go| {
        let rule = json!({"rules": [{"name": "db-*", "adjust": {"env": [{"key": "FOR", "value": "db"}]}}]});
        let podman = Podman::start(suite);
        let run = |name| {
            let script = "echo for ${FOR:-others}";
            podman.out(&[
                "run",
                "--rm",
                "--network=none",
                "--name",
                name,
                IMAGE,
                "sh",
                "-c",
                script,
            ])
        };
        let id = podman.run_detached("old", &[&["--network=none", IMAGE], &WAIT[..]].concat());
        let plugin = podman.connect("10-go", go, &rule.to_string());
        let seen = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(
            seen["containers"],
            json!([id]),
            "the first container has started nrid, which knows it"
        );
        assert_eq!((run("db-1").as_str(), run("web-1").as_str()), ("for db", "for others"));
        podman.out(&["rm", "--force", "old"]);
        assert_eq!(plugin.journal.wait_for("RemoveContainer", &id)["name"], "old");
    });
}
