//! Docker: a `daemon.json` after `uninstall` if it was edited since installation, or if the
//! record is missing.

use crate::{
    docker::{FILE, FILES, value},
    image::{CRUN, Image, RECORD},
};
use serde_json::{Value, json};

#[test]
fn edits_in_daemon_json_since_installation_stay() {
    let text = "{\n  \"debug\": true,\n  \"default-runtime\": \"nvidia\",\n  \"runtimes\": \
                {\n    \"nvidia\": {\"path\": \"/n\"}\n  }\n}\n";
    let check = |edits: &[(&str, &str)], expected: &str| {
        let image = Image::with(FILE, text);
        image.run_ok("install docker --default");
        edits.iter().for_each(|(from, to)| image.edit(FILE, from, to));
        image.run_ok("uninstall docker");
        assert_eq!(image.read(FILE), expected, "{edits:?}");
        assert!(!image.exists(RECORD));
    };
    // Another value is edited: the earlier default is restored.
    check(&[("true", "false")], &text.replace("true", "false"));
    check(
        &[("  \"debug\"", "  \"mtu\": 1,\n  \"debug\"")],
        &text.replace("  \"debug\"", "  \"mtu\": 1,\n  \"debug\""),
    );
    // Another default: it stays.
    check(
        &[("\"default-runtime\": \"nri\"", "\"default-runtime\": \"runc\"")],
        &text.replace("\"default-runtime\": \"nvidia\"", "\"default-runtime\": \"runc\""),
    );
    // Our runtime with a further key, or with another path.
    let path = "\"path\": \"/usr/local/bin/nri-container-runtime\"";
    check(&[(path, &format!("{path},\n      \"runtimeArgs\": []"))], text);
    check(
        &[
            (path, "\"path\": \"/opt/other\""),
            ("\"default-runtime\": \"nri\"", "\"default-runtime\": \"nvidia\""),
        ],
        &text.replace("\"/n\"}", "\"/n\"},\n    \"nri\": {\n      \"path\": \"/opt/other\"\n    }"),
    );
    // The file was removed before `uninstall`.
    let image = Image::with(FILE, text);
    image.run_ok("install docker --default");
    std::fs::remove_file(image.at(FILE)).unwrap();
    image.run_ok("uninstall docker");
    assert!(!image.exists(FILE) && !image.exists(RECORD));
}

#[test]
fn a_daemon_json_that_install_created_stays_if_it_has_other_values() {
    let image = Image::new();
    image.run_ok("install docker --default");
    image.edit(FILE, "{\n  \"runtimes\"", "{\n  \"debug\": true,\n  \"runtimes\"");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), "{\n  \"debug\": true\n}\n");
}

/// dockerd does not start with a default runtime that it does not have.
#[test]
fn uninstall_removes_a_default_that_names_our_runtime() {
    let image = Image::with(FILE, "{\n  \"debug\": true\n}\n");
    image.run_ok("install docker");
    image.edit(FILE, "\"debug\": true,", "\"debug\": true,\n  \"default-runtime\": \"nri\",");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), "{\n  \"debug\": true\n}\n");
}

/// Without the record, runtimes that call the wrapper are removed.
#[test]
fn a_docker_runtime_is_recognized_without_a_record() {
    for (what, text) in FILES {
        let image = Image::with(FILE, text);
        image.run_ok(&format!("install docker --default --runtime nri-crun={CRUN}"));
        let before: Value =
            serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_else(|_| json!({}));
        std::fs::remove_file(image.at(RECORD)).unwrap();
        image.run_ok("uninstall docker");
        let mut expected = before.clone();
        // Without the record, `uninstall` knows neither replaced values nor whether the table
        // existed.
        for key in ["default-runtime", "runtimes"] {
            if before.get(key).is_none_or(|value| key == "default-runtime" || *value == json!({})) {
                expected.as_object_mut().unwrap().remove(key);
            }
        }
        assert_eq!(value(&image), expected, "{what}");
        assert!(!image.exists("/usr/local/bin/nri-crun"));
    }
    // A runtime that was written by hand is recognized as well.
    let image =
        Image::with(FILE, "{\"runtimes\": {\"mine\": {\"path\": \"/opt/nri-container-runtime\"}}}");
    image.run_ok("uninstall docker");
    assert_eq!(image.read(FILE), "{}");
}

#[test]
fn runtimes_added_since_installation_stay() {
    let image = Image::with(FILE, "{\n  \"debug\": true\n}\n");
    image.run_ok("install docker");
    image.edit(FILE, "\"nri\": {", "\"kata\": {\"path\": \"/k\"},\n    \"nri\": {");
    image.run_ok("uninstall docker");
    let expected =
        "{\n  \"debug\": true,\n  \"runtimes\": {\n    \"kata\": {\"path\": \"/k\"}\n  }\n}\n";
    assert_eq!(image.read(FILE), expected);
}
