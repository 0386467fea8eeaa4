//! Writes the seeds of the fuzz targets: `cargo run --example seeds -- FOLDER` writes the files
//! `FOLDER/TARGET/NUMBER`, made from the OCI configs and cases of other tests of the repository.
//! `corpus.sh` calls this program and selects the seeds that reach the most code.

use nri_api::proto::*;
use nri_fuzz::frames::{self, write_request, write_response};
use nri_fuzz::{proto, write};
use protobuf::{MessageDyn, MessageFull};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn main() {
    let out = PathBuf::from(std::env::args().nth(1).expect("usage: seeds FOLDER"));
    let mut seeds = Seeds::default();
    for config in configs() {
        seeds.add_config(&config);
    }
    for case in cases() {
        seeds.add_case(&case);
    }
    for line in vectors() {
        seeds.add_vector(&line);
    }
    seeds.add_texts();
    for (target, inputs) in seeds.0 {
        let folder = out.join(target);
        std::fs::create_dir_all(&folder).expect("create the folder of a target");
        for (number, input) in inputs.iter().enumerate() {
            std::fs::write(folder.join(format!("{number:04}")), input).expect("write a seed");
        }
        println!("{target}: {}", inputs.len());
    }
}

/// Map from the name of a target to its inputs.
#[derive(Default)]
struct Seeds(BTreeMap<&'static str, Vec<Vec<u8>>>);

impl Seeds {
    fn add(&mut self, target: &'static str, input: Vec<u8>) {
        self.0.entry(target).or_default().push(input);
    }

    /// Adds seeds from a `config.json` of an engine.
    fn add_config(&mut self, config: &Value) {
        let mut input = Vec::new();
        write::part(config.to_string().as_bytes(), &mut input);
        write::message(&message::<ContainerAdjustment>(&some_adjustment()), &mut input);
        self.add("spec", input.clone());
        self.add("creation", input);
        let mut resources = config["linux"]["resources"].clone();
        let mut input = Vec::new();
        write::part(resources.to_string().as_bytes(), &mut input);
        resources["cpu"] = json!({ "shares": 512.0, "cpus": "0-1", "quota": -1 });
        write::part(resources.to_string().as_bytes(), &mut input);
        let resources = some_adjustment()["linux"]["resources"].clone();
        write::message(&message::<LinuxResources>(&resources), &mut input);
        write::part(b"gold", &mut input);
        self.add("update", input);
        let mut input = Vec::new();
        write::part(b"05-a-b.c", &mut input);
        write::number(8, &mut input); // bits of a subscription
        for text in
            ["id", config["linux"]["cgroupsPath"].as_str().unwrap_or("s.slice:p:n"), "host", "/b"]
        {
            write::part(text.as_bytes(), &mut input);
        }
        for (key, value) in config["annotations"].as_object().into_iter().flatten() {
            write::part(key.as_bytes(), &mut input);
            write::part(value.as_str().unwrap_or_default().as_bytes(), &mut input);
        }
        self.add("names", input);
    }

    /// Adds seeds from a case of `nri-spec`.
    fn add_case(&mut self, case: &Value) {
        let mut input = Vec::new();
        write::part(case["spec"].to_string().as_bytes(), &mut input);
        let adjust: ContainerAdjustment = message(&case["adjust"]);
        let reply =
            CreateContainerResponse { adjust: Some(adjust.clone()).into(), ..Default::default() };
        let mut spec = input.clone();
        write::message(&adjust, &mut spec);
        self.add("spec", spec);
        write::message(&reply, &mut input);
        self.add("creation", input);
        if let Some(files) = case["host"]["cdi"].as_array() {
            let name = case["adjust"]["CDIDevices"][0]["name"].as_str().unwrap_or_default();
            let mut input = Vec::new();
            write::part(name.as_bytes(), &mut input);
            for file in files {
                input.push(file["priority"].as_u64().unwrap_or_default() as u8);
                write::part(file["content"].to_string().as_bytes(), &mut input);
            }
            self.add("cdi", input);
        }
    }

    /// Adds seeds from a merge vector.
    fn add_vector(&mut self, line: &Value) {
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let (pod, plugins) = (message::<PodSandbox>(&line["pod"]), list(&line["plugins"]));
        let updates =
            |plugin: &Value| list(&plugin["updates"]).iter().map(message).collect::<Vec<_>>();
        let container = Container { id: "me".into(), ..Default::default() };
        let mut input = Vec::new();
        match line["op"].as_str() {
            Some("create") => {
                // The operation `create`, and a bit for each validator rule: every second is
                // enabled.
                input.extend([0, 0x55]);
                write::message(&pod, &mut input);
                write::message(&container, &mut input);
                let mut creation = Vec::new();
                write::part(line["spec"].to_string().as_bytes(), &mut creation);
                for plugin in &plugins {
                    let adjust = plugin.get("adjust").map(message::<ContainerAdjustment>);
                    let reply = CreateContainerResponse {
                        adjust: adjust.into(),
                        update: updates(plugin),
                        ..Default::default()
                    };
                    write::message(&reply, &mut input);
                    write::message(&reply, &mut creation);
                    self.add_message(&reply);
                }
                self.add("creation", creation);
            }
            Some("update") => {
                input.push(1); // the operation `update`
                write::message(&container, &mut input);
                let resources = message::<LinuxResources>(&line["resources"]);
                write::message(&resources, &mut input);
                for plugin in &plugins {
                    let reply =
                        UpdateContainerResponse { update: updates(plugin), ..Default::default() };
                    write::message(&reply, &mut input);
                    self.add_message(&reply);
                }
                let mut update = Vec::new();
                // The old resources, and equal new resources.
                for _ in 0..2 {
                    write::part(
                        line["spec"]["linux"]["resources"].to_string().as_bytes(),
                        &mut update,
                    );
                }
                write::message(&resources, &mut update);
                write::part(b"gold", &mut update);
                self.add("update", update);
            }
            _ => {
                input.push(2); // the operation `updates`
                for plugin in &plugins {
                    let evict =
                        vec![ContainerEviction { container_id: "c1".into(), ..Default::default() }];
                    let request = UpdateContainersRequest {
                        update: updates(plugin),
                        evict,
                        ..Default::default()
                    };
                    write::message(&request, &mut input);
                    self.add_message(&request);
                    self.add_calls(&request);
                }
            }
        }
        self.add("merge", input);
    }

    /// Adds an encoded message, after the number of its type.
    fn add_message<M: MessageFull>(&mut self, message: &M) {
        let number = proto::descriptors()
            .iter()
            .position(|d| *d == M::descriptor())
            .expect("the list has the message");
        let mut input = vec![u8::try_from(number).expect("less than 256 messages")];
        input.extend(encoded(message));
        self.add("protocol", input);
    }

    /// Adds the calls and responses that a plugin and a runtime write to their sockets.
    fn add_calls(&mut self, request: &UpdateContainersRequest) {
        let register = RegisterPluginRequest {
            plugin_name: "p".into(),
            plugin_idx: "00".into(),
            ..Default::default()
        };
        let mut plugin = vec![0];
        write_request(1, 5_000_000, "RegisterPlugin", &encoded(&register), &mut plugin);
        write_request(3, 1, "UpdateContainers", &encoded(request), &mut plugin);
        write_request(5, 0, "NoSuchMethod", b"", &mut plugin);
        write_response(1, 0, &encoded(&CreateContainerResponse::new()), &mut plugin);
        write_response(3, 12, b"", &mut plugin);
        let container = Container { id: "c".into(), env: vec!["A=1".into()], ..Default::default() };
        let create =
            CreateContainerRequest { container: Some(container).into(), ..Default::default() };
        let configure = ConfigureRequest { config: "k: v".into(), ..Default::default() };
        let mut runtime = vec![1];
        write_request(1, 2_000_000_000, "Configure", &encoded(&configure), &mut runtime);
        write_request(3, 0, "CreateContainer", &encoded(&create), &mut runtime);
        write_response(1, 0, b"", &mut runtime);
        write_response(3, 5, b"", &mut runtime);
        for (peer, mut input) in [(frames::Peer::Plugin, plugin), (frames::Peer::Runtime, runtime)]
        {
            // The same frames as bytes. For the target `session`, the bit of value 2 in the first
            // byte means that bytes follow. For `frames`, the first byte is the size of a read
            // minus one.
            let bytes = frames::frames(peer, &mut nri_fuzz::Input::new(&input[1..]));
            self.add("session", [&[input[0] | 2][..], &bytes].concat());
            self.add("frames", [&[7], &bytes[..]].concat());
            // A malformed message, a frame of an unknown connection, and a frame that ends within a
            // message.
            input.extend([frames::kind::MESSAGE, 2, 9, 1]);
            write::part(b"junk", &mut input);
            input.extend([frames::kind::FRAME, 7]);
            write::part(b"junk", &mut input);
            input.extend([frames::kind::FRAME, 2]);
            write::part(b"\0\0\0\x09\0\0\0", &mut input);
            self.add("session", input);
        }
    }

    /// Adds seeds that are not made from other tests: classes, configuration files, control
    /// messages.
    fn add_texts(&mut self) {
        let blockio = json!({ "Classes": { "gold": [
            { "Weight": "80" },
            {
                "Devices": ["/dev/sd*", "/dev/vd*"], "ThrottleReadBps": "50M",
                "ThrottleWriteIOPS": "5k", "Weight": "50",
            },
            {
                "devices": ["/dev/a"], "throttleReadBps": "1.5Gi", "ThrottleWriteBps": 1000,
                "ThrottleReadIOPS": "1e3",
            },
        ], "empty": [] } });
        let rdt = json!({ "options": {}, "partitions": {
            "shared": {
                "l3Allocation": "60%",
                "classes": { "silver": { "l3Allocation": "100%" }, "bronze": null },
            },
            "empty": {},
        } });
        for config in [blockio, rdt] {
            self.add("classes", config.to_string().into_bytes());
        }
        for text in [
            include_str!("../seeds/config.toml"),
            "plugin-request-timeout = 3\ndisable = true\n[runtime]\npath = 3\n",
            "1m30s",
            "1.5h250ms7us2ns",
            "         0          0 4294967295\n",
        ] {
            self.add("config", text.as_bytes().to_vec());
        }
        for text in include_str!("../seeds/control.jsonl").lines() {
            let framed = [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat();
            self.add("control", text.as_bytes().to_vec());
            self.add("control", framed);
        }
        for number in 0..proto::descriptors().len() {
            self.add("protocol", vec![number as u8]);
        }
    }
}

/// Returns an adjustment with a value for most fields.
fn some_adjustment() -> Value {
    serde_json::from_str(include_str!("../seeds/adjustment.json")).expect("valid JSON")
}

fn encoded(message: &dyn MessageDyn) -> Vec<u8> {
    message.write_to_bytes_dyn().expect("the message encodes")
}

fn message<M: MessageFull>(json: &Value) -> M {
    protobuf_json_mapping::parse_from_str(&json.to_string())
        .unwrap_or_else(|e| panic!("{json}: {e}"))
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the OCI configs of engines, with truncated lists and texts.
fn configs() -> Vec<Value> {
    let mut all = read_json(&repository().join("src/spec/tests/samples"), ".config.json");
    all.iter_mut().for_each(truncate);
    all
}

/// Shortens lists to 3 entries and long texts to 20 characters, so that seeds stay small. Texts of
/// up to 60 characters, such as names and paths, are kept.
fn truncate(value: &mut Value) {
    match value {
        Value::Array(list) => {
            list.truncate(3);
            list.iter_mut().for_each(truncate);
        }
        Value::Object(fields) => fields.values_mut().for_each(truncate),
        Value::String(text) if text.len() > 60 => *text = text.chars().take(20).collect(),
        _ => {}
    }
}

fn cases() -> Vec<Value> {
    read_json(&repository().join("src/spec/tests/cases"), ".json")
}

fn vectors() -> Vec<Value> {
    let folder = repository().join("tests/cases");
    let files =
        ["vectors/create.jsonl", "vectors/update.jsonl", "vectors/stop.jsonl", "differences.jsonl"];
    let text: String = files
        .iter()
        .map(|f| std::fs::read_to_string(folder.join(f)).expect("read the vectors"))
        .collect();
    text.lines().map(|line| serde_json::from_str(line).expect("valid JSON")).collect()
}

/// Reads all files with this ending below a folder.
fn read_json(folder: &Path, ending: &str) -> Vec<Value> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .expect("read a folder of samples or cases")
        .map(|entry| entry.expect("read an entry of a folder").path())
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        if path.is_dir() {
            return read_json(&path, ending);
        }
        let wanted = path.to_string_lossy().ends_with(ending);
        let text = if wanted {
            std::fs::read_to_string(&path).expect("read a file")
        } else {
            return Vec::new();
        };
        vec![serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))]
    };
    paths.into_iter().flat_map(read).collect()
}
