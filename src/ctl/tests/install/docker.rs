//! Docker and iSulad.

use crate::image::{CONFIG, CRUN, Image, WRAPPER, comes_and_goes};
use serde_json::{Value, json};

const FILE: &str = "/etc/docker/daemon.json";

/// As people write them.
const FILES: &[(&str, &str)] = &[
    ("empty", ""),
    ("an empty object", "{}"),
    ("an empty object and a newline", "{}\n"),
    ("an empty object over two lines", "{\n}\n"),
    ("one line", r#"{"debug":true,"log-driver":"json-file"}"#),
    ("one line with spaces", "{ \"debug\": true }\n"),
    ("two spaces", "{\n  \"debug\": true,\n  \"storage-driver\": \"overlay2\"\n}\n"),
    ("four spaces, no newline at the end", "{\n    \"debug\": true,\n    \"mtu\": 1400\n}"),
    (
        "tabs",
        "{\n\t\"exec-opts\": [\"native.cgroupdriver=systemd\"],\n\t\"log-opts\": {\n\t\t\"max-size\": \"10m\"\n\t}\n}\n",
    ),
    ("CRLF", "{\r\n  \"debug\": true,\r\n  \"dns\": [\"1.1.1.1\"]\r\n}\r\n"),
    ("a byte order mark", "\u{feff}{\n  \"debug\": true\n}\n"),
    ("blank lines", "\n\n{\n\n  \"debug\" : true\n\n}\n\n\n"),
    ("colons without spaces", "{\n \"debug\":true,\n \"iptables\":false\n}\n"),
    ("unicode", "{\n  \"labels\": [\"ort=Zürich\", \"\\u00e9\\\"}\"],\n  \"☃\": {}\n}\n"),
    (
        "numbers as they were written",
        "{\n  \"mtu\": 1.4e3,\n  \"big\": 123456789012345678901234567890,\n  \"neg\": -0.0\n}\n",
    ),
    ("no runtimes in runtimes", "{\n  \"runtimes\": {},\n  \"debug\": false\n}\n"),
    (
        "nvidia's",
        "{\n    \"runtimes\": {\n        \"nvidia\": {\n            \"args\": [],\n            \"path\": \"nvidia-container-runtime\"\n        }\n    }\n}",
    ),
    (
        "nvidia's as the default",
        "{\n  \"default-runtime\": \"nvidia\",\n  \"runtimes\": {\n    \"nvidia\": { \"path\": \"/usr/bin/nvidia-container-runtime\", \"runtimeArgs\": [] },\n    \"sysbox-runc\": { \"path\": \"/usr/bin/sysbox-runc\" }\n  },\n  \"nri-opts\": { \"enable\": false }\n}\n",
    ),
    (
        "a runtime by type",
        "{\"runtimes\": {\"gvisor\": {\"runtimeType\": \"io.containerd.runsc.v1\", \"options\": {\"TypeUrl\": \"io.containerd.runsc.v1.options\"}}}, \"default-runtime\": \"runc\"}\n",
    ),
    (
        "deep",
        "{\n  \"default-address-pools\": [\n    {\"base\": \"172.30.0.0/16\", \"size\": 24},\n    {\"base\": \"172.31.0.0/16\", \"size\": 24}\n  ],\n  \"builder\": {\"gc\": {\"enabled\": true, \"policy\": [{\"keepStorage\": \"10GB\", \"filter\": [\"unused-for=2200h\"]}]}}\n}\n",
    ),
];

/// Whether every character is still there, in order.
fn only_added(before: &str, after: &str) -> bool {
    let mut after = after.chars();
    before.chars().all(|c| after.any(|other| other == c))
}

fn value(image: &Image) -> Value {
    serde_json::from_str(image.read(FILE).trim_start_matches('\u{feff}')).unwrap()
}

#[test]
fn every_file_comes_back_byte_by_byte() {
    for (what, text) in FILES {
        println!("{what}");
        let before: Value =
            serde_json::from_str(text.trim_start_matches('\u{feff}')).unwrap_or_else(|_| json!({}));
        comes_and_goes(&Image::with(FILE, text), "docker", "", |image| {
            let mut expected = before.clone();
            expected["runtimes"]["nri"] = json!({"path": WRAPPER});
            assert_eq!(value(image), expected);
            let now = image.read(FILE);
            assert!(only_added(text, &now), "{now}");
            assert_eq!(now.contains('\r'), text.contains('\r'));
        });
        let options = format!("--default --runtime nri-crun={CRUN} --runtime fast={CRUN}");
        comes_and_goes(&Image::with(FILE, text), "docker", &options, |image| {
            let mut expected = before.clone();
            expected["runtimes"]["nri"] = json!({"path": WRAPPER});
            expected["runtimes"]["nri-crun"] = json!({"path": "/usr/local/bin/nri-crun"});
            expected["runtimes"]["fast"] = json!({"path": "/usr/local/bin/nri-fast"});
            expected["default-runtime"] = json!("nri");
            assert_eq!(value(image), expected);
            for link in ["nri-crun", "nri-fast"] {
                let target = std::fs::read_link(image.at("/usr/local/bin").join(link)).unwrap();
                assert_eq!(target.to_str(), Some("nri-container-runtime"));
                assert!(image.read(CONFIG).contains(&format!("[runtime.names.{link}]\npath = \"{CRUN}\"\n")));
            }
        });
    }
}

#[test]
fn without_a_file_there_is_one_and_then_none() {
    comes_and_goes(&Image::new(), "docker", "--default", |image| {
        let expected = "{\n  \"runtimes\": {\n    \"nri\": {\n      \"path\": \"/usr/local/bin/nri-container-runtime\"\n    }\n  },\n  \"default-runtime\": \"nri\"\n}\n";
        assert_eq!(image.read(FILE), expected);
    });
}
