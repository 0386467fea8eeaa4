//! `nri-rules test`: what the rules do with containers that do not exist: of a bundle, or the
//! samples in this program.

mod bundle;

use crate::{
    changes::{Changed, Changes},
    decide::decide,
    refusal::Refusal,
    rule::RuleSet,
    stack::{Progress, with_stack},
    unified::effective,
};
use bundle::Unseen;
use nri_control::answers;
use nri_locate::read_in_time;
use nri_plugin::proto::{Container, LinuxDevice, PodSandbox};
use nri_spec::{ContainerImage, ContainerInfo, OciConfig, to_container};
use std::{
    collections::HashMap,
    io::{self, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

/// Time for the rules, as the plugin has it with the default request timeout.
const LIMIT: Duration = Duration::from_millis(500);

/// Size of a `config.json` in bytes, as runtimes read it.
const MAX_CONFIG: u64 = 16 << 20;

/// Name of the sample that requests no resources.
const PLAIN: &str = "docker";

/// The containers in this program: their names, and their `config.json`, as the engines write them.
/// All but [`PLAIN`] keep the resources that they request there: memory, CPUs and pids.
const SAMPLES: [(&str, &str, &str); 4] = [
    (PLAIN, "docker", include_str!("../../containers/docker.json")),
    ("docker-limited", "docker", include_str!("../../containers/docker.json")),
    ("docker-privileged", "docker", include_str!("../../containers/docker-privileged.json")),
    ("podman", "podman", include_str!("../../containers/podman.json")),
];

/// What is known of the container of a bundle beside its `config.json`.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Facts {
    /// Engine of the container
    #[arg(long, default_value = "docker")]
    pub engine: String,
    /// Image of the container
    #[arg(long, default_value = "")]
    pub image: String,
    /// Label of the container, KEY=VALUE
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub labels: Vec<(String, String)>,
    /// Whether the container is privileged, if its config.json does not say so
    #[arg(long)]
    pub privileged: bool,
}

/// Error of a bundle.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TryError {
    /// The file cannot be read.
    #[error("{file}: {source}")]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The file is no OCI config.
    #[error("{file}: {why}")]
    Config {
        /// Path of the file.
        file: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The result cannot be printed.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Prints what the rules do with the container of a bundle. Returns whether it would be created.
///
/// # Errors
/// See [`TryError`].
pub(crate) fn bundle(
    rules: &RuleSet,
    dir: &Path,
    facts: &Facts,
    out: &mut dyn Write,
) -> Result<bool, TryError> {
    let file = dir.join("config.json");
    let read = |source| TryError::Read { file: file.clone(), source };
    let text = read_in_time(&file, MAX_CONFIG, answers).map_err(read)?;
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy();
    let (container, unseen) = container(&name, &text, facts, dir)
        .map_err(|e| TryError::Config { file: file.clone(), why: e })?;
    Ok(print(rules, &container, &unseen, out)?)
}

/// Prints what the rules do with the samples. Returns whether all of them would be created.
///
/// # Errors
/// See [`TryError`].
pub(crate) fn samples(rules: &RuleSet, out: &mut dyn Write) -> Result<bool, TryError> {
    let mut all = true;
    for (name, engine, text) in SAMPLES {
        let facts = Facts {
            engine: engine.to_owned(),
            image: "busybox".to_owned(),
            labels: Vec::new(),
            privileged: false,
        };
        let file = PathBuf::from(name);
        // They are those of any machine, and not of this one.
        let (mut container, _) = container(name, text.as_bytes(), &facts, Path::new("/"))
            .map_err(|e| TryError::Config { file, why: e })?;
        if name == PLAIN {
            container.linux.mut_or_insert_default().resources.clear();
        }
        all &= print(rules, &container, &[], out)?;
    }
    Ok(all)
}

/// Returns the container as plugins see it, and what of its facts could not be looked up. `dir` is
/// that of its `config.json`.
fn container(
    name: &str,
    config: &[u8],
    facts: &Facts,
    dir: &Path,
) -> Result<(Container, Vec<Unseen>), String> {
    let config = OciConfig::parse(config).map_err(|error| error.to_string())?;
    let fact = |name: &str, value: String| (format!("{}{name}", crate::facts::PREFIX), value);
    let (of_bundle, unseen) = bundle::facts(&config, dir);
    let mut annotations = HashMap::from(of_bundle.map(|(name, value)| fact(name, value)));
    annotations.extend([fact("engine", facts.engine.clone())]);
    if facts.privileged {
        annotations.extend([fact("privileged", true.to_string())]);
    }
    let image = ContainerImage { name: facts.image.clone(), ..ContainerImage::default() };
    let info = ContainerInfo {
        id: name.to_owned(),
        pod_sandbox_id: name.to_owned(),
        name: name.to_owned(),
        labels: facts.labels.iter().cloned().collect(),
        annotations,
        image: Some(image),
        ..ContainerInfo::default()
    };
    let container = to_container(&config, &info).map_err(|error| error.to_string())?;
    Ok((effective(container), unseen))
}

/// Prints what the rules do with a container, and which of their facts are only those of the file.
/// Returns whether it would be created.
fn print(
    rules: &RuleSet,
    container: &Container,
    unseen: &[Unseen],
    out: &mut dyn Write,
) -> io::Result<bool> {
    let pod = PodSandbox {
        id: container.pod_sandbox_id.clone(),
        name: container.name.clone(),
        labels: container.labels.clone(),
        ..PodSandbox::default()
    };
    // A device of the machine where the rules will apply may not be here.
    let device = |path: &str| Ok(LinuxDevice { path: path.to_owned(), ..LinuxDevice::default() });
    writeln!(out, "{}", container.name)?;
    for Unseen { fact, why } in unseen.iter().filter(|unseen| rules.variables.contains(unseen.fact))
    {
        writeln!(out, "  {fact}, only as config.json has it: {why}")?;
    }
    let progress = Progress::until(Instant::now() + LIMIT);
    match with_stack(|| decide(rules, &pod, container, &device, &progress))? {
        Err(refusal) => {
            writeln!(out, "  refused: {refusal}")?;
            Ok(false)
        }
        Ok(decision) => {
            let changes = decision.changes.since(&Changes::default(), container);
            if changes.is_empty() {
                writeln!(out, "  unchanged")?;
            }
            changes.iter().try_for_each(|change| print_change(change, "", out))?;
            for (rule, result) in &decision.observed {
                print_observed(rule, result, out)?;
            }
            Ok(true)
        }
    }
}

fn print_observed(
    rule: &str,
    result: &Result<Vec<Changed>, Refusal>,
    out: &mut dyn Write,
) -> io::Result<()> {
    match result {
        Ok(changes) if changes.is_empty() => writeln!(out, "  rule {rule:?} matches"),
        Ok(changes) => changes.iter().try_for_each(|change| print_change(change, "would ", out)),
        Err(refusal) => writeln!(out, "  would refuse: {refusal}"),
    }
}

/// Prints a change as two lines of a diff.
fn print_change(change: &Changed, would: &str, out: &mut dyn Write) -> io::Result<()> {
    let Changed { rule, field, before, after } = change;
    if let Some(before) = before {
        writeln!(out, "  - {field}: {before}")?;
    }
    match after {
        Some(after) => writeln!(out, "  + {field}: {after}  ({would}rule {rule:?})"),
        None => writeln!(out, "    removed  ({would}rule {rule:?})"),
    }
}
