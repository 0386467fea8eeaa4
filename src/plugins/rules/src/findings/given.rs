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

impl Given {
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
            Self::Configured { facts, .. } if facts.contains(&fact) => None,
            Self::Configured { file, exists, facts } => {
                let all: Vec<_> = facts.iter().copied().chain([fact]).collect();
                let what = match exists {
                    true => format!("which {file} does not give"),
                    false => format!("which nrid does not give without a configuration ({file})"),
                };
                Some(format!(
                    "{what}, so that the rule refuses containers: write facts = {all:?} in the \
                     section [containers]"
                ))
            }
        }
    }
}
