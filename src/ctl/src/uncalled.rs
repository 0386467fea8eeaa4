//! Plugins that exist and are called for no container of the engines that use the wrapper. An
//! absence is one line, which says why and ends in the command that mends it.

use crate::{
    error::CtlError,
    in_charge::{InCharge, kind_of_containers},
    install::{WrapperUsers, wrapper_users},
    nrid,
    nrid_location::NridLocation,
    output::output,
};
use nri_control::{PluginStatus, Status, answers};
use nri_host::{RunningEngine, running_engines};
use nri_locate::{BreakGlass, Environment, break_glass_file};
use nri_values::printable;
use std::{
    fmt, fs,
    io::{self, Write},
    os::unix::fs::PermissionsExt,
};

/// Why no plugin is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Uncalled {
    why: String,
    /// Command that mends it, or that says more.
    remedy: String,
}

/// Command that launches plugins that were added.
const RELOAD: &str = "nrictl reload";

impl fmt::Display for Uncalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no plugin is called for containers: {}: `{}`", self.why, self.remedy)
    }
}

/// What the plugin directories and the policies have.
#[derive(Debug, Default)]
struct Expected {
    /// Executable plugins that only `nrid` launches.
    own: Vec<String>,
    /// Executable plugins that engines with NRI launch, too.
    shared: Vec<String>,
    /// Plugins that are not executable.
    not_executable: Vec<String>,
    /// Policies for plugins other than `*`.
    policies: Vec<String>,
}

impl Uncalled {
    /// Requests the status of the `nrid` that runs, and finds why it calls no plugin.
    ///
    /// # Errors
    /// A running `nrid` does not reply.
    pub(crate) fn with_status(
        nrid: &NridLocation,
    ) -> Result<(Option<Box<Status>>, Option<Self>), CtlError> {
        let status = nrid::status_if_running(nrid)?;
        let uncalled = Self::find(nrid, status.as_deref());
        Ok((status, uncalled))
    }

    /// Checks whether plugins or policies exist, an engine uses the wrapper, and no plugin is
    /// called. `status` is that of the `nrid` that runs.
    pub(crate) fn find(nrid: &NridLocation, status: Option<&Status>) -> Option<Self> {
        Self::find_among(nrid, status, &running_engines())
    }

    /// As [`Uncalled::find`], with the engines that run.
    pub(crate) fn find_among(
        nrid: &NridLocation,
        status: Option<&Status>,
        running: &[RunningEngine],
    ) -> Option<Self> {
        // A directory that nrid cannot read, which the status shows, would hang here, too.
        if status.is_some_and(|status| status.plugin_dir_error.is_some()) {
            return None;
        }
        let expected = Expected::find(nrid);
        if nrid.problem.is_some() || expected.is_empty() {
            return None;
        }
        let users = wrapper_users(running);
        let has_containers = status.is_some_and(|status| status.containers > 0);
        if users.is_empty() && !has_containers {
            return None;
        }
        let passed_through = || passed_through(nrid, &expected, &users);
        switched_off(nrid).or_else(|| inactive(status?, &expected)).or_else(passed_through)
    }

    /// Whether a reload, before which files are validated, launches the plugin.
    pub(crate) fn is_pending(&self) -> bool {
        self.remedy == RELOAD
    }

    /// Prints the line, if there is one, as the last of a command's output.
    ///
    /// # Errors
    /// Standard output cannot be written to.
    pub(crate) fn print(nrid: &NridLocation, status: Option<&Status>) -> io::Result<()> {
        match Self::find(nrid, status) {
            Some(uncalled) => writeln!(output(), "{}", printable(&uncalled.to_string())),
            None => Ok(()),
        }
    }
}

impl Expected {
    fn find(nrid: &NridLocation) -> Self {
        let mut found = Self::default();
        for dir in nrid.plugin_dirs.all() {
            let is_shared = nrid.plugin_dirs.are_shared && dir == nrid.plugin_dirs.programs;
            for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                // Follows links, of which the mode of the target counts.
                let Ok(meta) = fs::metadata(entry.path()) else { continue };
                if !is_named_like_a_plugin(&name) || !meta.is_file() {
                    continue;
                }
                if meta.permissions().mode() & 0o111 == 0 {
                    found.not_executable.push(entry.path().display().to_string());
                } else if is_shared {
                    found.shared.push(name);
                } else {
                    found.own.push(name);
                }
            }
        }
        let named = nrid.config.plugin.iter().filter(|policy| policy.pattern != "*");
        found.policies = named.map(|policy| policy.pattern.clone()).collect();
        found
    }

    fn is_empty(&self) -> bool {
        [&self.own, &self.shared, &self.not_executable, &self.policies]
            .iter()
            .all(|list| list.is_empty())
    }
}

/// Whether a file has a name of the form `NN-name`.
fn is_named_like_a_plugin(name: &str) -> bool {
    name.split_once('-').is_some_and(|(index, name)| {
        index.len() == 2 && index.bytes().all(|b| b.is_ascii_digit()) && !name.is_empty()
    })
}

/// The configuration, or the break-glass file, lets the wrapper call no plugin.
fn switched_off(nrid: &NridLocation) -> Option<Uncalled> {
    if nrid.config.disable {
        let file = nrid.file.as_ref().map_or("".into(), |file| file.display().to_string());
        let why = format!("disable = true in {file}");
        return Some(Uncalled { why, remedy: format!("sed -i /^disable/d {file}") });
    }
    match break_glass_file(&Environment::of_this_process(), answers) {
        BreakGlass::On(Some(file)) => Some(Uncalled {
            why: format!("{} exists", file.display()),
            remedy: format!("rm {}", file.display()),
        }),
        _ => None,
    }
}

/// No plugin of an `nrid` that runs is active.
fn inactive(status: &Status, expected: &Expected) -> Option<Uncalled> {
    let is_usable = |plugin: &PluginStatus| !plugin.has_ended();
    // Shared plugins that are not launched yet are launched for the first container.
    if status.plugins.iter().any(is_usable) || status.plugin_dir.is_none() {
        return None;
    }
    let uncalled = |why: String, remedy: &str| Some(Uncalled { why, remedy: remedy.to_owned() });
    if let Some(due) = status.due.iter().find(|due| due.change == "launch") {
        return uncalled(format!("{} is not launched: {}", due.name, due.why), RELOAD);
    }
    if let Some(withheld) = status.ignored.iter().find(|file| file.change == "withheld") {
        let parts: Vec<&str> = withheld.why.split('`').collect();
        let [why, remedy, _] = parts[..] else { return None };
        let why = why.trim_end_matches("; ");
        return uncalled(format!("{} is not launched: {why}", withheld.name), remedy);
    }
    if let Some(plugin) = status.plugins.iter().find(|plugin| !plugin.name.is_empty()) {
        let error = plugin.last_error.as_deref().unwrap_or("it has ended");
        let remedy = format!("nrictl logs {}", plugin.name);
        return uncalled(format!("{}: {error}", plugin.name), &remedy);
    }
    if let Some(unusable) = status.due.first() {
        let why = format!("{} is not launched: {}", unusable.name, unusable.why);
        return uncalled(why, "nrictl validate");
    }
    if let Some(file) = expected.not_executable.first() {
        let remedy = format!("chmod +x {file} && nrictl reload");
        return uncalled(format!("{file} is not executable"), &remedy);
    }
    let name = expected.policies.first()?;
    let why = format!("the configuration has a policy for {name:?}, and no plugin is installed");
    uncalled(why, "nrictl plugin list")
}

/// The wrapper passes the containers of all engines that use it through.
fn passed_through(
    nrid: &NridLocation,
    expected: &Expected,
    users: &WrapperUsers<'_>,
) -> Option<Uncalled> {
    let passed = |engine: &&&RunningEngine| {
        let in_charge = InCharge::of(&nrid.config, engine);
        // The engine's NRI calls the shared plugins itself.
        let is_called = in_charge == InCharge::Engine && !expected.shared.is_empty();
        matches!(in_charge, InCharge::Engine | InCharge::Neither) && !is_called
    };
    let engine = users.running.iter().find(passed)?;
    if users.has_others || !users.running.iter().all(|engine| passed(&engine)) {
        return None;
    }
    let (name, pid) = (&engine.name, engine.pid);
    let containers = kind_of_containers(engine);
    let why = match InCharge::of(&nrid.config, engine) {
        InCharge::Neither => format!(
            "[engines] leaves the {containers} of {name} (process {pid}) to its own NRI, which is \
             off"
        ),
        _ => format!(
            "the NRI of {name} (process {pid}) adjusts its {containers}, and does not launch the \
             plugins of nrid"
        ),
    };
    let key = if name == "dockerd" { "docker" } else { name };
    Some(Uncalled { why, remedy: format!("nrictl install {key} --nri ours") })
}
