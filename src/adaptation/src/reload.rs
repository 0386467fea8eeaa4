//! Another configuration, and what changed in the plugin directory, while plugins run.
//!
//! What was launched is kept while nothing has changed that it was launched with: its program, its
//! configuration, its privileges, what `Configure` told it. If something has, it is launched anew
//! rather than configured again: the protocol has one `Configure` in a session, and upstream's stub
//! waits for one only. The old program ends before the new one begins, since both may want the same
//! file, lock or socket. Meanwhile the line is closed to what the plugin could change, so that no
//! container is created without it. What else a policy says holds from the next request on.
//!
//! [`ReloadAction`] is decided from the directory and from what was launched;
//! [`Adaptation::reload`] does it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::adaptation::{Inner, id_of};
use crate::discovery::{Found, Skipped, discover};
use crate::plugin::Plugin;
use crate::status::PluginOrigin;
use crate::{Adaptation, AdaptationConfig, LaunchOutcome, PluginState, Privileges};

/// How often it is looked whether a program that is ending has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What was launched last, by file.
#[derive(Default)]
pub(crate) struct Launches(Mutex<BTreeMap<PathBuf, Launched>>);

/// All that a program was launched with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Launched {
    found: Found,
    privileges: Privileges,
    /// `Configure` tells these.
    timeouts: (Duration, Duration),
}

impl Launched {
    fn of(found: &Found, config: &AdaptationConfig) -> Self {
        let policy = config.policy(&found.id);
        let timeouts = (config.registration_timeout, config.timeout(&policy));
        Self { found: found.clone(), privileges: policy.privileges, timeouts }
    }

    /// What is another now.
    fn differs(&self, now: &Self) -> Option<&'static str> {
        if self.found.program != now.found.program {
            Some("its program changed")
        } else if self.found.config != now.found.config {
            Some("its configuration changed")
        } else if self.privileges != now.privileges {
            Some("its privileges changed")
        } else if self.timeouts != now.timeouts {
            Some("its timeouts changed")
        } else {
            None
        }
    }
}

impl Launches {
    pub(crate) fn note(&self, found: &Found, config: &AdaptationConfig) {
        self.lock().insert(found.path.clone(), Launched::of(found, config));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Launched>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a reload has to do with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReloadAction {
    /// It is to be launched: it came after the start, or had ended.
    Launch {
        /// It was never launched before.
        new: bool,
    },
    /// It is to be launched anew, for this reason.
    Relaunch(&'static str),
    /// It is to be ended, for this reason.
    End(&'static str),
    /// It cannot be launched, for this reason; what runs of it goes on.
    Unusable(String),
}

/// What a reload did with one plugin.
#[derive(Debug)]
pub struct ReloadedPlugin {
    /// Its file.
    pub path: PathBuf,
    /// What was done.
    pub outcome: ReloadOutcome,
}

/// See [`ReloadedPlugin`].
#[derive(Debug)]
pub enum ReloadOutcome {
    /// It runs as before.
    Kept,
    /// It was launched, and is active.
    Launched,
    /// It was ended and launched anew, for this reason, and is active.
    Relaunched(&'static str),
    /// It was ended, for this reason.
    Ended(&'static str),
    /// It should run, and does not.
    Failed(String),
    /// It cannot be launched; what runs of it goes on.
    Unusable(String),
}

/// Decides. `runs`: whether something runs of this file, or is about to be launched again.
fn due(
    found: &[Found],
    skipped: &[Skipped],
    launched: &BTreeMap<PathBuf, Launched>,
    config: &AdaptationConfig,
    runs: impl Fn(&Path) -> bool,
) -> BTreeMap<PathBuf, Option<ReloadAction>> {
    let mut all = BTreeMap::new();
    for found in found {
        let before = launched.get(&found.path);
        let due = match before {
            _ if !runs(&found.path) => Some(ReloadAction::Launch { new: before.is_none() }),
            // It is launched, and was not by us to know.
            None => None,
            Some(before) => {
                before.differs(&Launched::of(found, config)).map(ReloadAction::Relaunch)
            }
        };
        all.insert(found.path.clone(), due);
    }
    for skipped in skipped {
        // With its cause: nobody else tells it.
        let source = std::error::Error::source(&skipped.reason);
        let cause = source.map(|e| format!(": {e}")).unwrap_or_default();
        let why = format!(
            "{}{}",
            skipped.reason,
            if skipped.reason.to_string().contains(&cause) { "" } else { &cause }
        );
        // A link that leads nowhere any more.
        let gone = matches!(&skipped.reason, crate::SkipReason::Unreadable(e) if e.kind() == std::io::ErrorKind::NotFound);
        let due = if gone && runs(&skipped.path) {
            ReloadAction::End("its file is gone")
        } else {
            ReloadAction::Unusable(why)
        };
        all.insert(skipped.path.clone(), Some(due));
    }
    for path in launched.keys().filter(|path| !all.contains_key(*path)).cloned().collect::<Vec<_>>()
    {
        let why = match path.parent() == Some(&config.plugin_path) {
            true if path.exists() => "its file is not executable any more",
            true => "its file is gone",
            false => "it is in another directory than plugin_path",
        };
        all.insert(path, Some(ReloadAction::End(why)));
    }
    all
}

impl Adaptation {
    /// What a reload would have to do, with the configuration that holds.
    pub async fn pending_reload(&self) -> Vec<(PathBuf, ReloadAction)> {
        let config = self.inner.config();
        let (all, _) = self.inner.look(config).await;
        all.into_iter().filter_map(|(path, due)| Some((path, due?))).collect()
    }

    /// Names of policies that are about no plugin that is there, was there, or could be launched:
    /// about one that connects later, or a wrong name.
    pub async fn unmatched_policies(&self) -> Vec<String> {
        let config = self.inner.config();
        let (all, _) = self.inner.look(config.clone()).await;
        let files = all.keys().filter_map(|path| id_of(path));
        let ids: Vec<_> = self.plugins().into_iter().filter_map(|p| p.id).chain(files).collect();
        let idle =
            |p: &&crate::PluginPolicy| p.plugin != "*" && !ids.iter().any(|id| p.matches(id));
        config.policies.iter().filter(idle).map(|p| p.plugin.clone()).collect()
    }

    /// Takes another configuration, and launches, relaunches and ends what it, and what is in the
    /// plugin directory now, ask for. All others keep their program and connection. A plugin that
    /// cannot be brought up is reported, and launched again as after a failure, also if it is
    /// required: then no container is created meanwhile.
    ///
    /// It is done to the end even if the caller goes away.
    pub async fn reload(&self, config: AdaptationConfig) -> Vec<ReloadedPlugin> {
        let inner = self.inner.clone();
        let done = tokio::spawn(async move { inner.reload(config).await }).await;
        done.unwrap_or_default()
    }
}

impl Inner {
    /// What is due for each file, and what can be launched.
    async fn look(
        &self,
        config: Arc<AdaptationConfig>,
    ) -> (BTreeMap<PathBuf, Option<ReloadAction>>, Vec<Found>) {
        let discovering = config.clone();
        let discovered = tokio::task::spawn_blocking(move || discover(&discovering)).await;
        let (found, skipped) = discovered.unwrap_or_default();
        let launched = self.launched.lock().clone();
        let all = due(&found, &skipped, &launched, &config, |path| self.runs(path));
        (all, found)
    }

    /// Whether a plugin of this file is there, or about to be launched again.
    fn runs(&self, path: &Path) -> bool {
        let all = self.registry.all();
        all.iter().any(|p| p.state != PluginState::Closed && is_of(&p.origin, path))
    }

    async fn reload(self: Arc<Self>, config: AdaptationConfig) -> Vec<ReloadedPlugin> {
        // From here on nobody else launches.
        let _launching = self.launching.write().await;
        let config = Arc::new(config);
        let (mut all, found) = self.look(config.clone()).await;
        self.set_config(config.clone());
        for plugin in self.line.plugins() {
            plugin.policy.set(config.policy(&plugin.id));
        }
        // Whoever waits for the next launch gets it now.
        for (path, due) in &mut all {
            if due.is_none()
                && !self.line.plugins().iter().any(|p| is_of(&p.record.get().origin, path))
            {
                *due = Some(ReloadAction::Launch { new: false });
            }
        }
        let is = |path: &Path, kind: fn(&ReloadAction) -> bool| {
            all.get(path).and_then(Option::as_ref).is_some_and(kind)
        };
        let of = |kind: fn(&ReloadAction) -> bool| -> Vec<Arc<Plugin>> {
            let plugins = self.line.plugins().into_iter();
            plugins
                .filter(
                    |p| matches!(&p.record.get().origin, PluginOrigin::Launched(f) if is(f, kind)),
                )
                .collect()
        };
        let (leaving, changing) = (
            of(|d| matches!(d, ReloadAction::End(_))),
            of(|d| matches!(d, ReloadAction::Relaunch(_))),
        );
        for path in all.keys().filter(|path| is(path, |d| matches!(d, ReloadAction::End(_)))) {
            // A pause before its next launch ends without one.
            self.restarts.begin(path);
        }
        let (renewed, fresh): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|f| is(&f.path, |d| matches!(d, ReloadAction::Relaunch(_))));
        let fresh: Vec<_> = fresh
            .into_iter()
            .filter(|f| is(&f.path, |d| matches!(d, ReloadAction::Launch { .. })))
            .collect();
        // With another directory, plugins come from there in place of those that leave.
        let moved = fresh.iter().any(|f| leaving.iter().any(|p| p.id == f.id));
        let closed = self.line.replace(&leaving);
        let closed = moved.then_some(closed);
        self.retire(leaving, "its file is not there any more").await;
        for path in all.keys().filter(|path| is(path, |d| matches!(d, ReloadAction::End(_)))) {
            self.launched.lock().remove(path);
            self.registry.forget(path);
        }
        let mut outcomes = self.clone().launch_when_gone(fresh).await;
        drop(closed);
        if !renewed.is_empty() {
            let _closed = self.line.replace(&changing);
            self.retire(changing, "it is launched anew").await;
            outcomes.extend(self.clone().launch_when_gone(renewed).await);
        }
        let mut failed: BTreeMap<_, _> = outcomes
            .into_iter()
            .filter_map(|o| Some((o.path, o.result.err()?.to_string())))
            .collect();
        let change = |(path, due): (PathBuf, Option<ReloadAction>)| {
            let outcome = match (failed.remove(&path), due) {
                (Some(error), _) => ReloadOutcome::Failed(error),
                (None, None) => ReloadOutcome::Kept,
                (None, Some(ReloadAction::Launch { .. })) => ReloadOutcome::Launched,
                (None, Some(ReloadAction::Relaunch(why))) => ReloadOutcome::Relaunched(why),
                (None, Some(ReloadAction::End(why))) => ReloadOutcome::Ended(why),
                (None, Some(ReloadAction::Unusable(why))) => ReloadOutcome::Unusable(why),
            };
            ReloadedPlugin { path, outcome }
        };
        all.into_iter().map(change).collect()
    }

    /// Ends plugins that are out of the line, when all that entered before has passed them.
    async fn retire(self: &Arc<Self>, plugins: Vec<Arc<Plugin>>, why: &'static str) {
        let mut ending = tokio::task::JoinSet::new();
        for plugin in plugins {
            let inner = self.clone();
            ending.spawn(async move {
                inner.line.passed(&plugin).await;
                let grace = plugin.timeout.min(inner.config().stop_grace);
                // A courtesy: an old plugin does not know it.
                let _ = tokio::time::timeout(grace, plugin.session.shutdown(grace)).await;
                plugin.retire(why.to_owned()).await;
            });
        }
        while ending.join_next().await.is_some() {}
    }

    /// Launches, each when what ran of its file has ended.
    async fn launch_when_gone(self: Arc<Self>, found: Vec<Found>) -> Vec<LaunchOutcome> {
        for found in &found {
            // Its end is bounded by the graces that it has.
            while self.registry.is_there(&found.path) && !self.is_shutting_down() {
                tokio::time::sleep(LOOK).await;
            }
        }
        self.launch_each(found, |_| true).await
    }
}

fn is_of(origin: &PluginOrigin, path: &Path) -> bool {
    matches!(origin, PluginOrigin::Launched(file) if file == path)
}
