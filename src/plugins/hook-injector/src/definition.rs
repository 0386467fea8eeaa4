//! Definition of a hook: a JSON file in one of the two formats of oci-hooks(5), checked. Where the
//! files are, and which of them apply, is the matter of [`crate::directories`].

use crate::conditions::{Conditions, InvalidPattern, Requested};
use serde::Deserialize;
use std::{collections::BTreeMap, io, path::Path};

/// A definition that is read and checked.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) hook: OciHook,
    pub(crate) conditions: Conditions,
    pub(crate) stages: Vec<Stage>,
}

/// A hook of the OCI runtime specification; the timeout is in seconds.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct OciHook {
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) args: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) env: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) timeout: Option<i64>,
}

/// When a hook runs. `prestart` is read as `createRuntime`, as CRI-O and Podman do: both run at the
/// same time, and the OCI specification has deprecated `prestart`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    CreateRuntime,
    CreateContainer,
    StartContainer,
    Poststart,
    Poststop,
}

/// A definition is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InvalidDefinition {
    #[error("invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("version {0:?} is none of 1.0.0 and 0.1.0")]
    Version(String),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{first} and {second} are the same property: set one of them")]
    Both {
        /// Name of the property.
        first: &'static str,
        /// Its other name.
        second: &'static str,
    },
    #[error(
        "unknown stage {0:?}: stages are prestart, createRuntime, createContainer, \
         startContainer, poststart and poststop"
    )]
    Stage(String),
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    /// The program does not exist (yet): not an error of the definition.
    #[error("hook {0} does not exist")]
    NoProgram(String),
    #[error("hook {path}: {source}")]
    Program { path: String, source: io::Error },
}

#[derive(Deserialize)]
struct Version {
    #[serde(default)]
    version: Option<String>,
}

/// Format 1.0.0.
#[derive(Deserialize)]
struct Current {
    #[serde(default)]
    hook: Option<OciHook>,
    #[serde(default)]
    when: Option<When>,
    #[serde(default)]
    stages: Option<Vec<String>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct When {
    always: Option<bool>,
    annotations: Option<BTreeMap<String, String>>,
    commands: Option<Vec<String>>,
    has_bind_mounts: Option<bool>,
}

/// Format 0.1.0, which is also that of files without a version.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Old {
    hook: Option<String>,
    arguments: Option<Vec<String>>,
    stages: Option<Vec<String>>,
    stage: Option<Vec<String>>,
    cmds: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    annotations: Option<Vec<String>>,
    annotation: Option<Vec<String>>,
    #[serde(alias = "hasBindMounts")]
    hasbindmounts: Option<bool>,
}

impl Definition {
    /// Parses and checks the content of a file.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, InvalidDefinition> {
        let version: Version = serde_json::from_slice(json)?;
        let definition = match version.version.as_deref() {
            Some("1.0.0") => serde_json::from_slice::<Current>(json)?.checked()?,
            Some("0.1.0" | "") | None => serde_json::from_slice::<Old>(json)?.checked()?,
            Some(other) => return Err(InvalidDefinition::Version(other.to_owned())),
        };
        let path = &definition.hook.path;
        match Path::new(path).metadata() {
            Ok(_) => Ok(definition),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                Err(InvalidDefinition::NoProgram(path.clone()))
            }
            Err(source) => Err(InvalidDefinition::Program { path: path.clone(), source }),
        }
    }
}

impl Current {
    fn checked(self) -> Result<Definition, InvalidDefinition> {
        let missing_path = InvalidDefinition::Missing("hook.path");
        let hook = self.hook.filter(|hook| !hook.path.is_empty()).ok_or(missing_path)?;
        let when = self.when.unwrap_or_default();
        let requested = Requested {
            always: when.always,
            annotations: when.annotations.unwrap_or_default(),
            commands: when.commands.unwrap_or_default(),
            has_bind_mounts: when.has_bind_mounts,
        };
        let conditions = Conditions::all_of(requested)?;
        let stages = self.stages.ok_or(InvalidDefinition::Missing("stages"))?;
        Ok(Definition { hook, conditions, stages: stages_of(&stages)? })
    }
}

impl Old {
    fn checked(self) -> Result<Definition, InvalidDefinition> {
        let path = self.hook.ok_or(InvalidDefinition::Missing("hook"))?;
        if path.is_empty() {
            return Err(InvalidDefinition::Missing("hook"));
        }
        let stages = either(self.stages, "stages", self.stage, "stage")?
            .ok_or(InvalidDefinition::Missing("stages"))?;
        let commands = either(self.cmds, "cmds", self.cmd, "cmd")?;
        let annotations = either(self.annotations, "annotations", self.annotation, "annotation")?;
        // A value of any annotation matches any of these patterns.
        let annotations = annotations.map(|patterns| (".*".to_owned(), patterns.join("|")));
        let requested = Requested {
            always: None,
            annotations: annotations.into_iter().collect(),
            commands: commands.unwrap_or_default(),
            has_bind_mounts: self.hasbindmounts,
        };
        // The path is also the first argument; without arguments, runtimes pass it themselves.
        let args = self
            .arguments
            .map(|arguments| std::iter::once(path.clone()).chain(arguments).collect());
        Ok(Definition {
            hook: OciHook { path, args, env: None, timeout: None },
            conditions: Conditions::any_of(requested)?,
            stages: stages_of(&stages)?,
        })
    }
}

/// Returns the value of a property that has two names.
fn either<T>(
    first: Option<T>,
    first_name: &'static str,
    second: Option<T>,
    second_name: &'static str,
) -> Result<Option<T>, InvalidDefinition> {
    match (first, second) {
        (Some(_), Some(_)) => {
            Err(InvalidDefinition::Both { first: first_name, second: second_name })
        }
        (first, second) => Ok(first.or(second)),
    }
}

fn stages_of(names: &[String]) -> Result<Vec<Stage>, InvalidDefinition> {
    let stage = |name: &String| match name.as_str() {
        "prestart" | "createRuntime" => Ok(Stage::CreateRuntime),
        "createContainer" => Ok(Stage::CreateContainer),
        "startContainer" => Ok(Stage::StartContainer),
        "poststart" => Ok(Stage::Poststart),
        "poststop" => Ok(Stage::Poststop),
        _ => Err(InvalidDefinition::Stage(name.clone())),
    };
    names.iter().map(stage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Subject;
    use std::collections::HashMap;

    fn parse(json: &str) -> Result<Definition, String> {
        Definition::parse(json.as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_definition_of_the_current_format_is_read() {
        let definition = parse(
            r#"{"version": "1.0.0", "hook": {"path": "/bin/true", "args": ["true", "x"],
                "env": ["A=b"], "timeout": 7}, "when": {"always": true}, "unknown": 1,
                "stages": ["prestart", "createRuntime", "createContainer", "startContainer",
                "poststart", "poststop"]}"#,
        )
        .unwrap();
        let expected = OciHook {
            path: "/bin/true".into(),
            args: Some(vec!["true".into(), "x".into()]),
            env: Some(vec!["A=b".into()]),
            timeout: Some(7),
        };
        assert_eq!(definition.hook, expected);
        use Stage::{CreateContainer, CreateRuntime, Poststart, Poststop, StartContainer};
        let expected =
            [CreateRuntime, CreateRuntime, CreateContainer, StartContainer, Poststart, Poststop];
        assert_eq!(definition.stages, expected);
    }

    #[test]
    fn a_definition_of_the_old_format_matches_if_any_condition_does() {
        for version in ["", r#""version": "0.1.0","#, r#""version": "","#] {
            let json = format!(
                r#"{{{version} "hook": "/bin/true", "arguments": ["a"], "stage": ["poststop"],
                    "cmd": ["^sh$"], "annotation": ["^yes$", "^on$"], "hasbindmounts": true}}"#
            );
            let definition = parse(&json).unwrap();
            assert_eq!(definition.hook.args, Some(vec!["/bin/true".into(), "a".into()]));
            let check = |args: &[&str], value: &str, has_bind_mounts, expected| {
                let subject = Subject {
                    annotations: HashMap::from([("k".to_owned(), value.to_owned())]),
                    args: args.iter().map(|s| (*s).to_owned()).collect(),
                    has_bind_mounts,
                };
                assert_eq!(definition.conditions.matches(&subject), Ok(expected), "{args:?}");
            };
            check(&["sh"], "no", false, true);
            check(&["ls"], "on", false, true);
            check(&["ls"], "no", true, true);
            check(&["ls"], "no", false, false);
        }
        assert_eq!(parse(r#"{"hook": "/bin/true", "stages": []}"#).unwrap().hook.args, None);
    }

    #[test]
    fn errors_name_the_property() {
        let check = |json: &str, expected: &str| {
            let error = parse(json).unwrap_err();
            assert!(error.contains(expected), "{json}: {error}");
        };
        let current = |rest: &str| format!(r#"{{"version": "1.0.0", {rest}}}"#);
        let hook = r#""hook": {"path": "/bin/true"}"#;
        check("{", "invalid JSON: EOF");
        check(r#"{"version": "2.0.0"}"#, "version \"2.0.0\" is none of");
        check(&current(r#""stages": []"#), "hook.path is missing");
        check(&current(r#""hook": {"args": ["a"]}, "stages": []"#), "hook.path is missing");
        check(&current(hook), "stages is missing");
        check(&current(&format!(r#"{hook}, "stages": ["start"]"#)), "unknown stage \"start\"");
        let commands = format!(r#"{hook}, "stages": [], "when": {{"commands": ["a("]}}"#);
        check(&current(&commands), "\"a(\"");
        check(&current(r#""hook": {"path": "/no/such"}, "stages": []"#), "/no/such does not exist");
        check(&current(r#""hook": {"path": "/bin/true/x"}, "stages": []"#), "hook /bin/true/x: ");
        check(r#"{"stages": []}"#, "hook is missing");
        check(r#"{"hook": "/bin/true"}"#, "stages is missing");
        let both = r#"{"hook": "/bin/true", "stages": [], "cmd": [], "cmds": []}"#;
        check(both, "cmds and cmd are the same property");
    }
}
