//! Which facts the runtime gives.

use nri_api::PluginId;
use nri_config::ContainerFact;
use nri_control::answers;
use nri_locate::{CONFIG_FILE, Environment, LoadedConfig};
use std::path::Path;

/// What is known of the facts that a runtime gives.
#[derive(Debug)]
pub(crate) enum Given {
    /// Nothing.
    Unknown,
    /// The runtime of this name, which is not `nrid`, gives none.
    Elsewhere(String),
    /// `nrid`, which launched this process, gives these.
    Launched(Vec<String>),
    /// `nrid` gives those of its configuration.
    Configured {
        /// The configuration file, and whether it exists.
        file: String,
        /// See [`Given::Configured::file`].
        exists: bool,
        /// The names of the facts.
        facts: Vec<&'static str>,
        /// The plugins that are required: `NN-name` or `name`.
        required: Vec<String>,
    },
}

/// Variable with the names of the facts that `nrid` gives, which it sets for plugins that it
/// launches.
const LAUNCHED: &str = "NRI_CONTAINER_RUNTIME_FACTS";

impl Given {
    /// Returns what `nrid` says to a plugin that it launches.
    pub(crate) fn of_launch() -> Self {
        std::env::var(LAUNCHED).map_or(Self::Unknown, |names| Self::of_names(&names))
    }

    fn of_names(names: &str) -> Self {
        let names = names.split(',').filter(|name| !name.is_empty());
        Self::Launched(names.map(str::to_owned).collect())
    }

    /// Reads the configuration that `nrid` reads, or another file.
    ///
    /// # Errors
    /// The file cannot be used, for the reason in the text.
    pub(crate) fn of_configuration(file: Option<&Path>) -> Result<Self, String> {
        let loaded = LoadedConfig::read(file, &Environment::of_this_process(), answers);
        if let Some(problem) = loaded.problem {
            return Err(problem.to_string());
        }
        let facts = loaded.config.containers.facts.iter().copied().map(ContainerFact::name);
        let policies = loaded.config.plugin.iter().filter(|policy| policy.required);
        let required = policies.map(|policy| policy.pattern.clone()).collect();
        let source = loaded.source.as_ref().map(|(path, _)| path.as_path());
        Ok(Self::Configured {
            file: source.unwrap_or(Path::new(CONFIG_FILE)).display().to_string(),
            exists: source.is_some(),
            facts: facts.collect(),
            required,
        })
    }

    /// Returns why the runtime does not give a fact, and what to do; `None` if it may give it.
    /// `used` are all facts that the rules use.
    pub(crate) fn missing(&self, fact: &str, used: &[&str]) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Elsewhere(runtime) => Some(format!(
                "which {runtime} does not give, but only nri-container-runtime: the rule refuses \
                 containers"
            )),
            Self::Launched(facts) => {
                let facts: Vec<_> = facts.iter().map(String::as_str).collect();
                let what = "which the configuration of nrid (config.toml) does not give";
                not_among(&facts, fact, used, what)
            }
            Self::Configured { file, exists, facts, .. } => {
                let what = if *exists {
                    format!("which {file} does not give")
                } else {
                    format!("which nrid does not give without a configuration ({file})")
                };
                not_among(facts, fact, used, &what)
            }
        }
    }
}

/// Whether containers are created while the plugin with some rules is not connected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Absent {
    /// They are refused.
    Refused(String),
    /// They are created without the rules.
    Created(String),
}

impl Given {
    /// Returns what happens to containers while the plugin that has this file is not connected;
    /// `None` if that is not known. The policy `*` requires no plugin that has never connected.
    pub(crate) fn absent(&self, file: &Path) -> Option<Absent> {
        let Self::Configured { file: configuration, required, .. } = self else { return None };
        // A file of another name has any.
        let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let full = PluginId::from_file_name(stem).ok();
        let name = match &full {
            Some(id) => id.name.as_str(),
            None if file.extension().is_some_and(|kind| kind == "conf") => stem,
            None => "rules",
        };
        let is_own = |pattern: &String| {
            let of_policy = PluginId::from_file_name(pattern).ok();
            let is_index = |id: &PluginId| full.as_ref().is_none_or(|full| full == id);
            pattern == name || of_policy.is_some_and(|id| id.name.as_str() == name && is_index(&id))
        };
        Some(if required.iter().any(is_own) {
            Absent::Refused(format!(
                "no container is created while the plugin is not connected, since {configuration} \
                 requires {name}"
            ))
        } else {
            Absent::Created(format!(
                "containers are created without the rules while the plugin is not connected: write \
                 required = true in a table [[plugin]] with match = {name:?} in {configuration}"
            ))
        })
    }
}

fn not_among(facts: &[&str], fact: &str, used: &[&str], what: &str) -> Option<String> {
    if facts.contains(&fact) {
        return None;
    }
    let more = used.iter().filter(|fact| !facts.contains(fact));
    let all: Vec<_> = facts.iter().chain(more).collect();
    Some(format!(
        "{what}, so that the rule refuses containers: write facts = {all:?} in the section \
         [containers]"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_facts_of_a_launch_are_those_that_nrid_says() {
        let given = Given::of_names("engine,capabilities");
        assert_eq!(given.missing("engine", &["engine"]), None);
        let missing = given.missing("privileged", &["engine", "privileged"]).unwrap();
        assert!(
            missing.contains(r#"facts = ["engine", "capabilities", "privileged"]"#),
            "{missing}"
        );
        assert!(
            Given::of_names("")
                .missing("engine", &["engine"])
                .unwrap()
                .contains(r#"facts = ["engine"]"#)
        );
    }
    #[test]
    fn a_plugin_is_required_by_its_name_with_or_without_its_index() {
        for (file, required, is_refused) in [
            ("/etc/nri/conf.d/rules.conf", "rules", true),
            ("/etc/nri/conf.d/rules.conf", "50-rules", true),
            ("/etc/nri/conf.d/50-rules.conf", "rules", true),
            ("/etc/nri/conf.d/50-rules.conf", "50-rules", true),
            ("/etc/nri/conf.d/50-rules.conf", "60-rules", false),
            ("/etc/nri/conf.d/60-mine.conf", "rules", false),
            ("mine.conf", "mine", true),
            ("privileged.yaml", "rules", true),
            ("rules.conf", "topology", false),
        ] {
            let given = Given::Configured {
                file: "config.toml".to_owned(),
                exists: true,
                facts: Vec::new(),
                required: vec![required.to_owned()],
            };
            let absent = given.absent(Path::new(file)).unwrap();
            assert_eq!(matches!(absent, Absent::Refused(_)), is_refused, "{file} {required}");
        }
        assert_eq!(Given::Unknown.absent(Path::new("rules.conf")), None);
    }
}
