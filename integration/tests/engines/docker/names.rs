//! Test of the name, labels and image of a container, which `nrid` reads from the files of dockerd.

use crate::adjusted::*;
use nri_integration::engines::*;
use serde_json::json;

#[test]
fn plugins_see_names_labels_annotations_and_addresses_of_docker() {
    for_each::<Docker>("names and labels", |suite, go_plugin| {
        let adjusted = Adjusted::with(Docker::start(suite), go_plugin, &json!({}));
        let docker = &adjusted.engine;
        // Docker 20.10 does not support annotations.
        let has_annotations = suite.version("dockerd") >= (25, 0);
        let annotation = ["--annotation", "example.org/key=value"];
        let annotation = if has_annotations { &annotation[..] } else { &[] };
        let options =
            ["--hostname", "inside", "--label", "org.example.label=l", "--label", "empty"];
        // Without --network, the container is connected to dockerd's bridge, which is in the
        // network namespace of the test.
        let id = docker.run_detached("web", &[&options, annotation, &[IMAGE], &WAIT].concat());
        let address = docker.out(&[
            "inspect",
            "--format",
            "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}",
            "web",
        ]);
        assert!(address.starts_with("172."), "{address}");

        let requested = adjusted.plugin.journal.wait_for("CreateContainer", &id);
        let (pod, container) = (&requested["pod"], &requested["container"]);
        assert_eq!((&container["id"], &container["podSandboxId"]), (&json!(id), &json!(id)));
        assert_eq!((&container["name"], &pod["name"]), (&json!("web"), &json!("web")));
        let labels = json!({"org.example.label": "l", "empty": "", "org.example.imagelabel": "v"});
        assert_eq!(container["labels"], labels);
        assert_eq!(
            pod["labels"], labels,
            "the labels of the pod differ from those of its only container"
        );
        assert_eq!(container["image"]["name"], IMAGE);
        assert_eq!(pod["linux"]["cgroupParent"], "/docker");
        if has_annotations {
            let expected = json!({"example.org/key": "value"});
            assert_eq!((&container["annotations"], &pod["annotations"]), (&expected, &expected));
        }
        let started = adjusted.plugin.journal.wait_for("StartContainer", &id);
        assert_eq!(started["pod"]["ips"], json!([address]));
    });
}
