//! Parser of one line of a vector file.

use nri_api::proto::{
    ContainerAdjustment, ContainerUpdate, LinuxResources, OwningPlugins, PodSandbox,
};
use nri_api::{InvalidPlugin, PluginId};
use nri_merge::validator::DefaultValidatorConfig;
use protobuf::MessageFull;
use protobuf_json_mapping::ParseError;
use serde_json::{Map, Value};

/// A case and its expected result.
#[derive(Debug, Clone)]
pub struct Case {
    /// Name of the case.
    pub id: String,
    /// Request that the plugins reply to.
    pub op: Op,
    /// The OCI config.
    pub spec: Value,
    /// The pod.
    pub pod: PodSandbox,
    /// The container of the request.
    pub container_id: String,
    /// The plugins and their replies, in order.
    pub plugins: Vec<Plugin>,
    /// Resources that the engine requests, for [`Op::Update`].
    pub resources: LinuxResources,
    /// Map from RDT classes to `linux.intelRdt`.
    pub rdt_classes: Map<String, Value>,
    /// Map from block I/O classes to `linux.resources.blockIO`.
    pub blockio_classes: Map<String, Value>,
    /// Configuration of the default validator, if the case runs it.
    pub validator: Option<DefaultValidatorConfig>,
    /// The expected result.
    pub expected: Expected,
}

/// Request that the plugins reply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// CreateContainer.
    Create,
    /// UpdateContainer.
    Update,
    /// StopContainer.
    Stop,
}

/// A plugin and its reply.
#[derive(Debug, Clone)]
pub struct Plugin {
    /// Index and name.
    pub id: PluginId,
    /// Requested adjustment.
    pub adjust: Option<ContainerAdjustment>,
    /// Requested updates.
    pub updates: Vec<ContainerUpdate>,
}

/// Result that upstream gave.
#[derive(Debug, Clone)]
pub enum Expected {
    /// Success. A field that the case does not have is not compared.
    Outcome {
        /// The adjusted OCI config.
        spec: Option<Value>,
        /// Owners of the fields that plugins set.
        owners: Option<OwningPlugins>,
        /// The merged updates.
        updates: Option<Vec<Option<ContainerUpdate>>>,
    },
    /// An error.
    Error {
        /// Text of the error.
        error: String,
        /// Stage that failed: `merge`, `validate` or `apply`.
        stage: String,
    },
}

/// Error of a line that is not a valid case.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// Not JSON.
    #[error("not JSON")]
    Json(#[from] serde_json::Error),
    /// A key is missing or has a value of another type.
    #[error("key {key} is missing or is not {expected}")]
    Key {
        /// The key.
        key: &'static str,
        /// Expected type.
        expected: &'static str,
    },
    /// The value of a key is not the protojson of the expected message.
    #[error("cannot parse the message of key {key}")]
    Message {
        /// The key.
        key: &'static str,
        /// Error of the parser.
        #[source]
        source: ParseError,
    },
    /// The index or name of a plugin is invalid.
    #[error(transparent)]
    Plugin(#[from] InvalidPlugin),
    /// A key or value is unknown. It is not ignored, because that could hide a failure.
    #[error("unknown {kind} {name:?}")]
    Unknown {
        /// Kind of the key or value.
        kind: &'static str,
        /// The key or value.
        name: String,
    },
}

impl Case {
    /// Parses a line.
    ///
    /// # Errors
    /// If the line is not JSON, lacks a required key, or has an unknown key or an invalid value.
    pub fn parse(line: &str) -> Result<Self, Malformed> {
        let case: Value = serde_json::from_str(line)?;
        let options = case.get("options").unwrap_or(&Value::Null);
        let classes =
            |key| options.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        check_keys("key", &case, KEYS)?;
        check_keys("option", options, &["rdtClasses", "blockioClasses", "defaultValidator"])?;
        Ok(Self {
            id: text(&case, "id")?,
            op: match text(&case, "op")?.as_str() {
                "create" => Op::Create,
                "update" => Op::Update,
                "stop" => Op::Stop,
                name => return Err(Malformed::Unknown { kind: "op", name: name.to_owned() }),
            },
            spec: case.get("spec").cloned().unwrap_or(Value::Null),
            pod: optional(&case, "pod")?.unwrap_or_default(),
            container_id: text(&case, "container_id")?,
            plugins: list(&case, "plugins")?.iter().map(plugin).collect::<Result<_, _>>()?,
            resources: optional(&case, "resources")?.unwrap_or_default(),
            rdt_classes: classes("rdtClasses"),
            blockio_classes: classes("blockioClasses"),
            validator: options.get("defaultValidator").map(validator).transpose()?,
            expected: expected(case.get("expect").unwrap_or(&Value::Null))?,
        })
    }
}

const KEYS: &[&str] =
    &["id", "op", "spec", "pod", "container_id", "plugins", "resources", "options", "expect"];

fn plugin(value: &Value) -> Result<Plugin, Malformed> {
    check_keys("key of a plugin", value, &["index", "name", "adjust", "updates"])?;
    let updates = match value.get("updates") {
        None | Some(Value::Null) => &[],
        Some(_) => list(value, "updates")?,
    };
    Ok(Plugin {
        id: PluginId::new(&text(value, "index")?, &text(value, "name")?)?,
        adjust: optional(value, "adjust")?,
        updates: updates.iter().map(|u| message("updates", u)).collect::<Result<_, _>>()?,
    })
}

fn validator(value: &Value) -> Result<DefaultValidatorConfig, Malformed> {
    let mut config = DefaultValidatorConfig::default();
    for (key, value) in value.as_object().into_iter().flatten() {
        let flag = match key.as_str() {
            "rejectOCIHookAdjustment" => &mut config.reject_oci_hook_adjustment,
            "rejectRuntimeDefaultSeccompAdjustment" => {
                &mut config.reject_runtime_default_seccomp_adjustment
            }
            "rejectUnconfinedSeccompAdjustment" => &mut config.reject_unconfined_seccomp_adjustment,
            "rejectCustomSeccompAdjustment" => &mut config.reject_custom_seccomp_adjustment,
            "rejectNamespaceAdjustment" => &mut config.reject_namespace_adjustment,
            "rejectSysctlAdjustment" => &mut config.reject_sysctl_adjustment,
            "requiredPlugins" => {
                let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                config.required_plugins = names.map(str::to_owned).collect();
                continue;
            }
            "tolerateMissingPluginsAnnotation" => {
                config.tolerate_missing_plugins_annotation = value.as_str().map(str::to_owned);
                continue;
            }
            name => {
                return Err(Malformed::Unknown {
                    kind: "validator setting",
                    name: name.to_owned(),
                });
            }
        };
        *flag = value
            .as_bool()
            .ok_or(Malformed::Key { key: "validator setting", expected: "a boolean" })?;
    }
    Ok(config)
}

fn expected(expect: &Value) -> Result<Expected, Malformed> {
    check_keys(
        "key of the expected result",
        expect,
        &["spec", "owners", "updates", "error", "stage"],
    )?;
    if expect.get("error").is_some() {
        return Ok(Expected::Error {
            error: text(expect, "error")?,
            stage: text(expect, "stage")?,
        });
    }
    let owners = expect.get("owners").map(|owners| {
        message("owners", &Value::Object(Map::from_iter([("owners".to_owned(), owners.clone())])))
    });
    let updates = expect.get("updates").filter(|u| !u.is_null()).map(|_| {
        list(expect, "updates")?
            .iter()
            .map(|u| if u.is_null() { Ok(None) } else { message("updates", u).map(Some) })
            .collect::<Result<_, Malformed>>()
    });
    Ok(Expected::Outcome {
        spec: expect.get("spec").cloned(),
        owners: owners.transpose()?,
        updates: updates.transpose()?,
    })
}

fn check_keys(kind: &'static str, value: &Value, keys: &[&str]) -> Result<(), Malformed> {
    match value.as_object().into_iter().flatten().find(|(key, _)| !keys.contains(&key.as_str())) {
        Some((name, _)) => Err(Malformed::Unknown { kind, name: name.clone() }),
        None => Ok(()),
    }
}

fn text(value: &Value, key: &'static str) -> Result<String, Malformed> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or(Malformed::Key { key, expected: "a string" })
}

fn list<'a>(value: &'a Value, key: &'static str) -> Result<&'a [Value], Malformed> {
    let list = value.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or(Malformed::Key { key, expected: "a list" })
}

fn optional<M: MessageFull>(value: &Value, key: &'static str) -> Result<Option<M>, Malformed> {
    value.get(key).filter(|v| !v.is_null()).map(|v| message(key, v)).transpose()
}

fn message<M: MessageFull>(key: &'static str, value: &Value) -> Result<M, Malformed> {
    protobuf_json_mapping::parse_from_str(&value.to_string())
        .map_err(|source| Malformed::Message { key, source })
}
