//! Which facts the runtime gives.

use nri_config::ContainerFact;
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
        let loaded = LoadedConfig::read(file, &Environment::of_this_process());
        if let Some(problem) = loaded.problem {
            return Err(problem.to_string());
        }
        let facts = loaded.config.containers.facts.iter().copied().map(ContainerFact::name);
        let source = loaded.source.as_ref().map(|(path, _)| path.as_path());
        Ok(Self::Configured {
            file: source.unwrap_or(Path::new(CONFIG_FILE)).display().to_string(),
            exists: source.is_some(),
            facts: facts.collect(),
        })
    }

    /// Returns why the runtime does not give a fact, and what to do; `None` if it may give it.
    pub(crate) fn missing(&self, fact: &str) -> Option<String> {
        match self {
            Self::Unknown => None,
            Self::Elsewhere(runtime) => Some(format!(
                "which {runtime} does not give, but only nri-container-runtime: the rule refuses \
                 containers"
            )),
            Self::Launched(facts) => {
                let facts: Vec<_> = facts.iter().map(String::as_str).collect();
                let what = "which the configuration of nrid (config.toml) does not give";
                not_among(&facts, fact, what)
            }
            Self::Configured { file, exists, facts } => {
                let what = if *exists {
                    format!("which {file} does not give")
                } else {
                    format!("which nrid does not give without a configuration ({file})")
                };
                not_among(facts, fact, &what)
            }
        }
    }
}

fn not_among(facts: &[&str], fact: &str, what: &str) -> Option<String> {
    if facts.contains(&fact) {
        return None;
    }
    let all: Vec<_> = facts.iter().copied().chain([fact]).collect();
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
        assert_eq!(given.missing("engine"), None);
        let missing = given.missing("privileged").unwrap();
        assert!(
            missing.contains(r#"facts = ["engine", "capabilities", "privileged"]"#),
            "{missing}"
        );
        assert!(Given::of_names("").missing("engine").unwrap().contains(r#"facts = ["engine"]"#));
    }
}
