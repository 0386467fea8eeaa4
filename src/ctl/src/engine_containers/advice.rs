//! Says how a container runs that `nrid` does not know, and how to create it again.

use super::{
    find::{EngineContainer, Wrapper},
    names::name_and_id,
};
use crate::install::{DEFAULT_NAME, TargetEngine, configured};
use nri_values::printable;

/// Page with the steps for all engines.
const PAGE: &str = "docs/existing-containers.md";
/// Labels of Compose.
const COMPOSE_PROJECT: &str = "com.docker.compose.project";
const COMPOSE_SERVICE: &str = "com.docker.compose.service";
/// Paths of the files of the project, with commas.
const COMPOSE_FILES: &str = "com.docker.compose.project.config_files";

/// Returns a container with its runtime, as messages show it.
pub(crate) fn shown(container: &EngineContainer) -> String {
    let runtime = container.runtime.to_string_lossy();
    format!("{} ({})", printable(&container.name), printable(&runtime))
}

/// Returns why `nrid` does not know a container, and what to do about it.
pub(super) fn explanation(container: &EngineContainer) -> String {
    let name = name_and_id(&container.name, &container.id);
    if container.wrapper == Wrapper::PassedThrough {
        return format!(
            "{name} passed through nri-container-runtime: no plugin of nrid saw it. Either it has \
             opted out, the engine's own NRI adapts it, or nri-container-runtime was bypassed or \
             disabled ({PAGE})"
        );
    }
    let engine = TargetEngine::of_container(&container.engine);
    let configured = engine.and_then(|engine| configured(engine, None, None).ok().flatten());
    let runtime = container.runtime.to_string_lossy();
    let installed = match &configured {
        None => Installed::No,
        Some(configured) => match (configured.default_runtime(), configured.runtimes.first()) {
            (None, Some(runtime)) => Installed::Named(&runtime.name),
            _ => Installed::Default,
        },
    };
    let step = next_step(container, engine, installed);
    format!(
        "{name} runs under {}, without nri-container-runtime: no plugin of nrid saw it. To change \
         that, {step} ({PAGE})",
        printable(&runtime)
    )
}

/// The wrapper in the files of an engine.
#[derive(Debug, Clone, Copy)]
enum Installed<'a> {
    No,
    /// As the default runtime.
    Default,
    /// As a runtime of this name.
    Named(&'a str),
}

/// Returns how to create the container again, so that plugins see it.
fn next_step(
    container: &EngineContainer,
    engine: Option<TargetEngine>,
    installed: Installed<'_>,
) -> String {
    let Some(engine) = engine else {
        let option = if container.engine == "nerdctl" { "--runtime" } else { "--runc-binary" };
        return format!(
            "remove it and create it again with `{} run {option} $(command -v \
             nri-container-runtime) …`",
            container.engine
        );
    };
    let name = engine.name();
    let (first, runtime) = match installed {
        Installed::No => (format!("`nrictl install {name}`, then "), Some(DEFAULT_NAME)),
        Installed::Default => (String::new(), None),
        Installed::Named(runtime) => (String::new(), Some(runtime)),
    };
    let label = |key: &str| container.labels.get(key).filter(|value| is_plain(value));
    let step = match (&*container.engine, label(COMPOSE_PROJECT), label(COMPOSE_SERVICE)) {
        ("docker" | "podman", Some(project), Some(service)) => {
            let files = label(COMPOSE_FILES).map_or("", String::as_str);
            let files = files.split(',').filter(|file| !file.is_empty());
            let files: String = files.map(|file| format!("--file {file} ")).collect();
            let with = runtime.map(|runtime| format!(", with `runtime: {runtime}` in its file"));
            format!(
                "`{name} compose --project-name {project} {files}up --detach \
                 --force-recreate {service}`{}",
                with.unwrap_or_default()
            )
        }
        ("docker" | "podman", ..) => {
            let option = runtime.map(|runtime| format!("--runtime {runtime} ")).unwrap_or_default();
            format!("remove it and create it again with `{name} run {option}…`")
        }
        _ => {
            let class = runtime.map(|runtime| format!(" with the runtime handler {runtime}"));
            let class = class.unwrap_or_default();
            format!("delete its pod and create it again{class}")
        }
    };
    first + &step
}

/// Whether a label can be part of a command that a person copies: images have labels, too.
fn is_plain(label: &str) -> bool {
    label.chars().all(|c| c.is_ascii_alphanumeric() || "._-/,".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(engine: &str) -> EngineContainer {
        EngineContainer {
            id: "c1".into(),
            name: "web".into(),
            pod_name: String::new(),
            engine: engine.to_owned(),
            labels: [].into(),
            runtime: "/usr/bin/runc".into(),
            runtime_name: "runc".into(),
            pid: Some(7),
            wrapper: Wrapper::No,
        }
    }

    fn step(container: &EngineContainer, installed: Installed<'_>) -> String {
        next_step(container, TargetEngine::of_container(&container.engine), installed)
    }

    #[test]
    fn the_step_names_the_runtime_unless_it_is_the_default() {
        let docker = container("docker");
        let again = |option| format!("remove it and create it again with `docker run {option}…`");
        let (named, default) = (Installed::Named("nri"), Installed::Default);
        assert_eq!(step(&docker, named), again("--runtime nri "));
        assert_eq!(step(&docker, default), again(""));
        let files = (COMPOSE_FILES, "/srv/compose.yaml");
        let labels = [(COMPOSE_PROJECT, "shop"), (COMPOSE_SERVICE, "web"), files];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let compose = EngineContainer { labels, ..docker };
        let command = "`docker compose --project-name shop --file \
                       /srv/compose.yaml up --detach --force-recreate web`";
        assert_eq!(step(&compose, default), command);
        assert_eq!(step(&compose, named), format!("{command}, with `runtime: nri` in its file"));
        let hostile = EngineContainer {
            labels: [COMPOSE_PROJECT, COMPOSE_SERVICE]
                .map(|k| (k.to_owned(), "$(x)".into()))
                .into(),
            ..compose
        };
        assert_eq!(step(&hostile, default), again(""));
        let pod = "delete its pod and create it again";
        assert_eq!(step(&container("containerd"), default), pod);
        assert_eq!(step(&container("cri-o"), named), format!("{pod} with the runtime handler nri"));
        let ctr = step(&container("ctr"), named);
        assert!(ctr.contains("`ctr run --runc-binary $(command -v nri-"), "{ctr}");
        let missing = step(&container("podman"), Installed::No);
        let expected = "`nrictl install podman`, then remove it and create it again with `podman \
                        run --runtime nri …`";
        assert_eq!(missing, expected);
    }
}
