//! [`dry_run`]: from the arguments to the answer of the plugins.

use crate::{
    audit::Audit,
    daemon::start::reopen_namespaces,
    dry_run::{
        children,
        manager::DryRunManager,
        selection::{PluginSelection, id_of, plugin, select},
        subject::{DryRunError, DryRunSubject, request_for},
    },
    engine::engines::Engines,
    plugins::{launch::Plugins, requests::PluginRequests, shared::SharedState},
    process::{activation::Activation, log, this_process::ThisProcess},
    resources::manager::ResourceManager,
    service::Service,
    settings::load::Settings,
    state::{
        external_plugins::ExternalPlugins, registry::Registry, store::Store, verbs::VerbsInProgress,
    },
    verb::creation::dry_run::DryRunPlugins,
};
use nri_adaptation::{Adaptation, AdaptationConfig, LaunchOutcome};
use nri_api::PluginId;
use nri_config::Mode;
use nri_control::{DryRun, DryRunAnswer, DryRunPlugin};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// Time limit of a dry run: that of some plugins that do not reply, one after the other.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Number of attempts to read the records, which `nrid` may replace meanwhile.
const READ_ATTEMPTS: usize = 5;
/// Pause between two attempts.
const READ_PAUSE: Duration = Duration::from_millis(20);

/// Asks the plugins that may be asked. `connected` are the external plugins that are connected to
/// `nrid`. No instance of a plugin, nor any of its children, outlives the call.
///
/// # Errors
/// The subject is not known, or plugins did not reply in time.
pub async fn dry_run(
    settings: Settings,
    subject: &DryRunSubject,
    connected: &[PluginId],
) -> Result<DryRun, DryRunError> {
    children::adopt_orphans().map_err(|error| DryRunError::Process(error.into()))?;
    let receiver = |kind| signal(kind).map_err(DryRunError::Process);
    let mut term = receiver(SignalKind::terminate())?;
    let mut int = receiver(SignalKind::interrupt())?;
    let answered = tokio::select! {
        answered = ask(settings, subject, connected) => answered,
        () = sleep(TIMEOUT) => Err(DryRunError::TimedOut(TIMEOUT)),
        _ = term.recv() => Err(DryRunError::Interrupted),
        _ = int.recv() => Err(DryRunError::Interrupted),
    };
    children::kill_all().await;
    answered
}

async fn ask(
    settings: Settings,
    subject: &DryRunSubject,
    connected: &[PluginId],
) -> Result<DryRun, DryRunError> {
    let registry = Arc::new(read_records(&settings).await?);
    let mut service = service(settings, registry.clone()).await?;
    reopen_namespaces(&service.engines.namespaces, &registry);
    let settings = service.settings();
    let (request, record) = request_for(&settings, &registry, subject).await?;
    let id = request.key.id.clone();
    let runtime = request.runtime.path().display().to_string();
    let plan = service.draft_dry_run(request, record.as_deref()).await;
    let plan = plan.map_err(|error| DryRunError::Creation(error.line(&id)))?;
    let draft = &plan.draft;
    let PluginSelection { config, asked, mut others } = select(&settings, connected);
    let mut found = DryRun {
        container: id,
        name: draft.identity.name.clone(),
        engine: draft.identity.engine.name().to_owned(),
        pod: draft.pod_id().to_owned(),
        runtime,
        skipped: plan.skipped.clone(),
        before: draft.config.value().clone(),
        ..DryRun::default()
    };
    if settings.config.mode == Mode::Shadow {
        found.notes.push("mode = \"shadow\": a creation logs changes, and makes none".to_owned());
    }
    if let Some(reason) = &found.skipped {
        let skipped =
            |id: &PluginId| plugin(id.to_string(), DryRunAnswer::NotAsked, Some(reason.clone()));
        others.extend(asked.iter().map(skipped));
        found.after = Some(found.before.clone());
        found.plugins = in_order(others);
        return Ok(found);
    }
    let manager = Arc::new(DryRunManager::new(registry, draft.nri_id.clone()));
    let (adaptation, outcomes) = Adaptation::start(config, manager.clone()).await?;
    service.plugins.adaptation = adaptation.clone();
    let DryRunPlugins { reached, missed } = service.ask_plugins(plan, &mut found).await;
    adaptation.shutdown().await;

    let is_refused = found.refusal.is_some();
    let notes = manager.notes();
    let answer = |id: &PluginId| {
        let failure = launch_failure(&outcomes, id).or_else(|| {
            missed.iter().find(|absent| absent.plugin == *id).map(|absent| absent.why.clone())
        });
        let (answer, reason) = match failure {
            Some(why) => (DryRunAnswer::Failed, Some(why)),
            None if reached.contains(id) => (DryRunAnswer::Asked, None),
            None => {
                let why = if is_refused {
                    "an earlier plugin refused, or it does not handle creations"
                } else {
                    "it does not handle creations of containers"
                };
                (DryRunAnswer::NotAsked, Some(why.to_owned()))
            }
        };
        let mut plugin = plugin(id.to_string(), answer, reason);
        if let Some(notes) = notes.get(&plugin.name) {
            plugin.requests.clone_from(&notes.requests);
            plugin.output.clone_from(&notes.output);
        }
        plugin
    };
    others.extend(asked.iter().map(answer));
    found.plugins = in_order(others);
    Ok(found)
}

/// Reads the records of the `nrid` that runs, without changing them. A record that is replaced
/// while it is read may be incomplete, and is read again.
async fn read_records(settings: &Settings) -> Result<Registry, DryRunError> {
    let mut attempt = 1;
    loop {
        let (registry, mut broken) = Registry::load(Store::read_only(&settings.state_dir));
        match broken.pop() {
            None => return Ok(registry),
            Some(error) if attempt == READ_ATTEMPTS => {
                tracing::warn!(%error, "record skipped");
                return Ok(registry);
            }
            Some(_) => attempt += 1,
        }
        sleep(READ_PAUSE).await;
    }
}

/// Returns a service that has the records, and neither plugins nor sockets.
async fn service(settings: Settings, registry: Arc<Registry>) -> Result<Service, DryRunError> {
    let resources = Arc::new(ResourceManager::new(registry, Audit::off(), &settings.config));
    let requests = Arc::new(PluginRequests::new(resources, Arc::new(ExternalPlugins::none())));
    let nothing = AdaptationConfig { plugin_path: PathBuf::new(), ..AdaptationConfig::default() };
    let (adaptation, _) = Adaptation::start(nothing, requests.clone()).await?;
    let plugins = Plugins::new(adaptation, requests, SharedState::Launched);
    let (log, mut passed) = (log::warn_on_stderr(), Activation::default());
    let process = ThisProcess::new(log, &mut passed, Vec::new(), None);
    let (engines, verbs) = (Engines::default(), VerbsInProgress::default());
    Ok(Service::new(settings, process, engines, plugins, verbs))
}

/// Returns why a plugin is not active, if it is not.
fn launch_failure(outcomes: &[LaunchOutcome], id: &PluginId) -> Option<String> {
    let outcome = outcomes.iter().find(|outcome| id_of(&outcome.path).as_ref() == Some(id))?;
    outcome.result.as_ref().err().map(ToString::to_string)
}

fn in_order(mut plugins: Vec<DryRunPlugin>) -> Vec<DryRunPlugin> {
    plugins.sort_by(|a, b| a.name.cmp(&b.name));
    plugins
}
