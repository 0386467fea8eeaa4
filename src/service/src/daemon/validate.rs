//! `nrid --validate`: checks all files that a start, a reload and creations read: the
//! configuration, the plugin directory, files of classes, CDI specifications. Uses the functions
//! that read them there, and changes nothing. Which external plugins are connected, a running
//! `nrid` says.

use crate::{
    host::{cdi::Devices, classes, error_chain::chain},
    plugins::{
        config::{adaptation_config, policy_warnings},
        shared::SharedLaunch,
    },
    settings::load::Settings,
};
use nri_adaptation::{FileUse, PluginPolicy, SkipReason, plugin_files};
use nri_api::PluginId;
use nri_control::{Client, Reply, Request, Validation, ValidationSeverity};
use nri_files::CONTROL_SOCKET;
use nri_spec::CdiResolver;
use nri_values::nearest;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

/// Time limit of the question to a running `nrid`.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

/// Checks the configuration, and the files that it names.
pub fn validate(config: Option<&Path>, state_dir: Option<&Path>) -> Validation {
    let mut found = Validation::default();
    match Settings::load(config, state_dir) {
        Ok(settings) => {
            check_configuration(&mut found, &settings);
            check_plugins(&mut found, &settings);
            check_classes(&mut found, &settings);
            check_cdi(&mut found, &settings);
        }
        Err(error) => found.add(ValidationSeverity::Problem, "configuration", error.to_string()),
    }
    found
}

fn check_configuration(found: &mut Validation, settings: &Settings) {
    use ValidationSeverity::{Ok, Problem, Warning};
    let before = found.items.len();
    for mistake in settings.mistakes() {
        found.add(Problem, "configuration", mistake.to_string());
    }
    for missing in settings.missing_paths() {
        found.add(Problem, "configuration", missing.to_string());
    }
    for warning in policy_warnings(&settings.config) {
        found.add(Warning, "configuration", warning);
    }
    if found.items.len() == before {
        let text = match &settings.file {
            Some(file) => file.display().to_string(),
            None => "no file; all keys have their defaults".to_owned(),
        };
        found.add(Ok, "configuration", text);
    }
}

/// Checks the plugin directory, whether `nrid` or an engine launches its plugins.
fn check_plugins(found: &mut Validation, settings: &Settings) {
    use ValidationSeverity::{Info, Ok, Problem};
    let dir = settings.plugin_dirs.programs.clone();
    let files = plugin_files(&adaptation_config(settings, &SharedLaunch::Launched(None)));
    if files.is_empty() && dir.is_dir() {
        found.add(Info, "plugin", format!("{}: no plugin", dir.display()));
    }
    check_required(found, settings, &files);
    for (path, used) in files {
        let path = path.display();
        match used {
            FileUse::Launched => found.add(Ok, "plugin", path.to_string()),
            FileUse::Ignored => {
                found.add(Info, "plugin", format!("{path}: ignored, since it is not executable"));
            }
            FileUse::Skipped(reason @ SkipReason::SameName(_)) => {
                found.add(Info, "plugin", format!("{path}: ignored: {reason}"));
            }
            FileUse::Skipped(reason) => {
                found.add(Problem, "plugin", format!("{path}: {}", chain(&reason)));
            }
        }
    }
}

/// Checks whether required plugins exist: as files that are launched, or as connected plugins.
/// Without one, every creation is refused, unless it connects later; so that is a problem only if
/// another plugin was meant.
fn check_required(found: &mut Validation, settings: &Settings, files: &[(PathBuf, FileUse)]) {
    use ValidationSeverity::{Problem, Warning};
    let config = &settings.config;
    if !settings.plugins_can_refuse() {
        return;
    }
    let by_policy = config.plugin.iter().filter(|p| p.refuses_without()).map(|p| &p.pattern);
    let validator = Some(&config.default_validator).filter(|validator| validator.enable);
    let required: BTreeSet<&String> =
        by_policy.chain(validator.iter().flat_map(|v| &v.required_plugins)).collect();
    if required.is_empty() {
        return;
    }
    let launched = files.iter().filter(|(_, used)| matches!(used, FileUse::Launched));
    let launched = launched.filter_map(|(path, _)| path.file_name()?.to_str().map(str::to_owned));
    let names: Vec<_> = launched.chain(active_plugins(&settings.state_dir)).collect();
    let ids: Vec<_> = names.iter().filter_map(|name| PluginId::from_file_name(name).ok()).collect();
    for plugin in required {
        let policy = PluginPolicy { plugin: plugin.clone(), ..PluginPolicy::default() };
        if ids.iter().any(|id| policy.matches(id)) {
            continue;
        }
        let bare = ids.iter().map(|id| id.name.as_str());
        let meant = nearest(plugin, names.iter().map(String::as_str).chain(bare));
        let hint = meant.map(|meant| format!("; did you mean {meant:?}?")).unwrap_or_default();
        let text = format!(
            "{plugin:?} is required, but there is no file of such a plugin and none is connected: \
             creations are refused until one is{hint}"
        );
        found.add(if meant.is_some() { Problem } else { Warning }, "plugin", text);
    }
}

/// Returns the names of the plugins that a running `nrid` calls; none if none runs or replies.
fn active_plugins(state_dir: &Path) -> Vec<String> {
    let ask = || {
        let client = Client::connect(&state_dir.join(CONTROL_SOCKET)).ok()?;
        client.set_timeout(Some(STATUS_TIMEOUT)).ok()?;
        match client.call(&Request::Status, &[]).ok()? {
            Reply::Status(status) => Some(status.plugins),
            _ => None,
        }
    };
    let active = ask().unwrap_or_default().into_iter().filter(|plugin| !plugin.has_ended());
    active.map(|plugin| plugin.name).collect()
}

fn check_classes(found: &mut Validation, settings: &Settings) {
    use ValidationSeverity::{Ok, Problem};
    let config = &settings.config;
    let checks = [
        ("block I/O", &config.blockio.config_file, classes::check_blockio as fn(&Path) -> _),
        ("RDT", &config.rdt.config_file, classes::check_rdt),
    ];
    for (about, file, check) in checks {
        // A missing file is a problem of the configuration.
        let Some(file) = file.as_deref().filter(|file| file.is_file()) else { continue };
        match check(file) {
            Result::Ok(names) => {
                let names = if names.is_empty() { "no class".to_owned() } else { names.join(", ") };
                found.add(Ok, about, format!("{}: {names}", file.display()));
            }
            Err(problem) => {
                // The text of the problem continues a sentence.
                let text = problem.to_string();
                found.add(Problem, about, text.trim_start_matches([':', ' ']));
            }
        }
    }
}

fn check_cdi(found: &mut Validation, settings: &Settings) {
    use ValidationSeverity::{Ok, Problem};
    let dirs = &settings.config.cdi.spec_dirs;
    let devices = Devices::read(dirs);
    for broken in devices.broken() {
        found.add(Problem, "CDI", broken.clone());
    }
    let names = devices.names();
    for name in &names {
        if let Err(error) = devices.resolve(&[name]) {
            found.add(Problem, "CDI", chain(&error));
        }
    }
    if !names.is_empty() {
        found.add(Ok, "CDI", format!("{} devices", names.len()));
    }
}
