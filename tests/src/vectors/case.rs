//! One line of a vector file, parsed.

use nri_api::proto::{
    ContainerAdjustment, ContainerUpdate, LinuxResources, OwningPlugins, PodSandbox,
};
use nri_api::{InvalidPlugin, PluginId};
use nri_merge::validator::DefaultValidatorConfig;
use protobuf::MessageFull;
use protobuf_json_mapping::ParseError;
use serde_json::{Map, Value};

/// A case and its answer.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// Which request.
    pub op: Op,
    /// The OCI config.
    pub spec: Value,
    /// The pod.
    pub pod: PodSandbox,
    /// The container of the request.
    pub container_id: String,
    /// The plugins and their replies, in order.
    pub plugins: Vec<Plugin>,
    /// What the engine requests, in an update.
    pub resources: LinuxResources,
    /// RDT class to `linux.intelRdt`.
    pub rdt_classes: Map<String, Value>,
    /// Block I/O class to `linux.resources.blockIO`.
    pub blockio_classes: Map<String, Value>,
    /// Rules of the default validator, if it runs.
    pub validator: Option<DefaultValidatorConfig>,
    /// The answer.
    pub expected: Expected,
}

/// Which request the plugins reply to.
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
    /// Who.
    pub id: PluginId,
    /// Its adjustment.
    pub adjust: Option<ContainerAdjustment>,
    /// Its updates.
    pub updates: Vec<ContainerUpdate>,
}

/// What upstream answered.
#[derive(Debug, Clone)]
pub enum Expected {
    /// Each only where the case tells it.
    Outcome {
        /// The adjusted OCI config.
        spec: Option<Value>,
        /// Who set what.
        owners: Option<OwningPlugins>,
        /// The merged updates.
        updates: Option<Vec<Option<ContainerUpdate>>>,
    },
    /// A refusal.
    Error {
        /// Its text.
        error: String,
        /// Where it came from.
        stage: String,
    },
}

/// A line that is no case.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// Not JSON.
    #[error("not JSON")]
    Json(#[from] serde_json::Error),
    /// A key is missing or of another type.
    #[error("{key} is missing or not {wanted}")]
    Key {
        /// Which.
        key: &'static str,
        /// What it should be.
        wanted: &'static str,
    },
    /// A message is not protojson.
    #[error("{key} is not the message it should be")]
    Message {
        /// Which.
        key: &'static str,
        /// Why.
        #[source]
        source: ParseError,
    },
    /// A plugin's identity.
    #[error(transparent)]
    Plugin(#[from] InvalidPlugin),
    /// A key that this runner does not know; ignoring it could hide a failure.
    #[error("unknown {what} {name:?}")]
    Unknown {
        /// Kind of thing.
        what: &'static str,
        /// Which.
        name: String,
    },
}

impl Case {
    /// Parses a line.
    ///
    /// # Errors
    /// A line of another form.
    pub fn parse(line: &str) -> Result<Self, Malformed> {
        let case: Value = serde_json::from_str(line)?;
        let options = case.get("options").unwrap_or(&Value::Null);
        let classes =
            |key| options.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        known("key", &case, KEYS)?;
        known("option", options, &["rdtClasses", "blockioClasses", "defaultValidator"])?;
        Ok(Self {
            id: text(&case, "id")?,
            op: match text(&case, "op")?.as_str() {
                "create" => Op::Create,
                "update" => Op::Update,
                "stop" => Op::Stop,
                name => return Err(Malformed::Unknown { what: "op", name: name.to_owned() }),
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
    known("key of a plugin", value, &["index", "name", "adjust", "updates"])?;
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
                    what: "validator setting",
                    name: name.to_owned(),
                });
            }
        };
        *flag = value
            .as_bool()
            .ok_or(Malformed::Key { key: "validator setting", wanted: "a boolean" })?;
    }
    Ok(config)
}

fn expected(expect: &Value) -> Result<Expected, Malformed> {
    known("key of the answer", expect, &["spec", "owners", "updates", "error", "stage"])?;
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

fn known(what: &'static str, value: &Value, keys: &[&str]) -> Result<(), Malformed> {
    match value.as_object().into_iter().flatten().find(|(key, _)| !keys.contains(&key.as_str())) {
        Some((name, _)) => Err(Malformed::Unknown { what, name: name.clone() }),
        None => Ok(()),
    }
}

fn text(value: &Value, key: &'static str) -> Result<String, Malformed> {
    let text = value.get(key).and_then(Value::as_str);
    text.map(str::to_owned).ok_or(Malformed::Key { key, wanted: "a string" })
}

fn list<'a>(value: &'a Value, key: &'static str) -> Result<&'a [Value], Malformed> {
    let list = value.get(key).and_then(Value::as_array);
    list.map(Vec::as_slice).ok_or(Malformed::Key { key, wanted: "a list" })
}

fn optional<M: MessageFull>(value: &Value, key: &'static str) -> Result<Option<M>, Malformed> {
    value.get(key).filter(|v| !v.is_null()).map(|v| message(key, v)).transpose()
}

fn message<M: MessageFull>(key: &'static str, value: &Value) -> Result<M, Malformed> {
    protobuf_json_mapping::parse_from_str(&value.to_string())
        .map_err(|source| Malformed::Message { key, source })
}
