//! Who a container is to plugins: its name, labels and image are in dockerd's own files.

use super::*;

#[test]
fn names_labels_annotations_and_addresses() {
    for_each("docker, names and labels", |suite, go| {
        let adjusted = Adjusted::start(suite, go, &json!({}));
        let docker = &adjusted.docker;
        // Not in 20.10: annotations.
        let annotated = suite.version("dockerd") >= (25, 0);
        let annotation = ["--annotation", "example.org/key=value"];
        let annotation = if annotated { &annotation[..] } else { &[] };
        let options =
            ["--hostname", "inside", "--label", "org.example.label=l", "--label", "empty"];
        // On the bridge of a network namespace of its own.
        let id = docker.run_detached("web", &[&options, annotation, &[IMAGE], &WAIT].concat());
        let address = docker.out(&[
            "inspect",
            "--format",
            "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
            "web",
        ]);
        assert!(address.starts_with("172."), "{address}");

        let asked = adjusted.plugin.journal.wait_for("CreateContainer", &id);
        let (pod, container) = (&asked["pod"], &asked["container"]);
        assert_eq!((&container["id"], &container["podSandboxId"]), (&json!(id), &json!(id)));
        assert_eq!((&container["name"], &pod["name"]), (&json!("web"), &json!("web")));
        let labels = json!({"org.example.label": "l", "empty": "", "org.example.imagelabel": "v"});
        assert_eq!(container["labels"], labels);
        assert_eq!(pod["labels"], labels, "the pod is this container's");
        assert_eq!(container["image"]["name"], IMAGE);
        assert_eq!(pod["linux"]["cgroupParent"], "/docker");
        if annotated {
            let expected = json!({"example.org/key": "value"});
            assert_eq!((&container["annotations"], &pod["annotations"]), (&expected, &expected));
        }
        let started = adjusted.plugin.journal.wait_for("StartContainer", &id);
        assert_eq!(started["pod"]["ips"], json!([address]));
        // Names can be matched on: the same plugin, another rule.
        let rule = json!({"rules": [{"name": "db-*", "adjust": {"env": [{"key": "FOR", "value": "db"}]}}]});
        let mut plugin = adjusted.plugin;
        plugin.tell(&json!({"config": rule}));
        plugin.journal.wait_for_own("Reconfigured");
        let run = |name| {
            docker.out(&[
                "run",
                "--rm",
                "--name",
                name,
                IMAGE,
                "sh",
                "-c",
                "echo for ${FOR:-others}",
            ])
        };
        assert_eq!((run("db-1").as_str(), run("web-1").as_str()), ("for db", "for others"));
    });
}

#[test]
fn a_plugin_that_comes_later_gets_the_names() {
    for_each("docker, names in a snapshot", |suite, go| {
        let docker = Docker::start(suite);
        let id = docker.run_detached(
            "web",
            &[&["--network=none", "--label", "a=b", IMAGE], &WAIT[..]].concat(),
        );
        let plugin = docker.connect("20-late", go, "{}");
        let seen = plugin.journal.wait_for_own("Synchronize");
        assert_eq!(
            seen["containers"],
            json!([id]),
            "the first container has started nrid, which knows it"
        );
        docker.out(&["rm", "--force", "web"]);
        let removed = plugin.journal.wait_for("RemoveContainer", &id);
        assert_eq!(removed["name"], "web", "{removed}");
    });
}
