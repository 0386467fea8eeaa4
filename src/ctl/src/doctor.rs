//! `nrictl doctor`: whether this installation can work, which socket is whose, and who is in charge
//! of which engine's containers.

mod running;

use crate::{bypass, output::output, place::Place};
use nri_config::{Config, InCharge};
use nri_control::Status;
use nri_host::{NriState, RunningEngine, describe, listener, running_engines};
use nri_locate::{
    BreakGlass, HOOK, LIBEXEC_DIR, PLUGIN_DIR, PLUGIN_SOCKET, break_glass_file, runtime_candidates,
    standard_dirs,
};
use serde::Serialize;
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Name of the plugins' socket in the state directory.
const OWN_SOCKET: &str = "nri.sock";

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// Something does not work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    /// What was looked at.
    about: &'static str,
    /// What was found.
    text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub(crate) struct Report(Vec<Finding>);

impl Report {
    fn add(&mut self, level: Level, about: &'static str, text: impl Into<String>) -> &mut Self {
        self.0.push(Finding { level, about, text: text.into(), advice: None });
        self
    }

    /// To the last finding.
    fn advise(&mut self, advice: impl Into<String>) {
        if let Some(last) = self.0.last_mut() {
            last.advice = Some(advice.into());
        }
    }

    /// Whether something does not work.
    pub(crate) fn has_problem(&self) -> bool {
        self.0.iter().any(|f| f.level == Level::Problem)
    }

    /// Prints for people, or for programs.
    ///
    /// # Errors
    /// Nobody takes the output.
    pub(crate) fn print(&self, json: bool) -> io::Result<()> {
        let mut out = output();
        if json {
            return writeln!(
                out,
                "{}",
                serde_json::json!({"ok": !self.has_problem(), "findings": self.0})
            );
        }
        for finding in &self.0 {
            let mark = match finding.level {
                Level::Ok => "ok",
                Level::Note => "note",
                Level::Problem => "PROBLEM",
            };
            writeln!(
                out,
                "{mark:<8}{:<15}{}",
                finding.about,
                nri_control::printable(&finding.text)
            )?;
            if let Some(advice) = &finding.advice {
                writeln!(out, "{:<23}{advice}", "")?;
            }
        }
        Ok(())
    }
}

/// Looks at everything. `status`: what nrid says, if it runs; `failed`: why it runs and says
/// nothing.
pub(crate) fn examine(place: &Place, status: Option<&Status>, failed: Option<&str>) -> Report {
    let mut report = Report::default();
    configuration(&mut report, place);
    programs(&mut report, place);
    match failed {
        Some(why) => running::unheard(&mut report, place, why),
        None => running::look(&mut report, place, status),
    }
    let engines = running_engines();
    sockets(&mut report, place, status, &engines);
    plugins(&mut report, place, status, &engines);
    for engine in &engines {
        in_charge(&mut report, &place.config, engine);
    }
    report
}

fn configuration(report: &mut Report, place: &Place) {
    let break_glass = break_glass_file();
    if let Some(text) = bypass::describe(&break_glass) {
        let is_on = matches!(break_glass, BreakGlass::On);
        let level = if is_on { Level::Note } else { Level::Problem };
        report.add(level, "bypass", text);
        report.advise("Remove the file when what it was made for is over.");
    }
    if let Some(problem) = &place.problem {
        let text = problem.to_string();
        // The column says what it is about.
        let text = text.strip_prefix("configuration ").unwrap_or(&text);
        report.add(Level::Problem, "configuration", text);
        report.advise("Containers fail to be created until it is mended, and nrid does not start.");
        return;
    }
    let from = place
        .file
        .as_ref()
        .map_or_else(|| "none: defaults".to_owned(), |f| f.display().to_string());
    report.add(Level::Ok, "configuration", from);
    if place.config.disable {
        report.add(
            Level::Note,
            "configuration",
            "disable = true: every verb is a plain call of the real runtime",
        );
    }
}

fn programs(report: &mut Report, place: &Place) {
    match &place.launcher.program {
        Some(program) => report.add(Level::Ok, "nrid", program.display().to_string()),
        None => report.add(
            Level::Problem,
            "nrid",
            "the program is not found: no container can be created",
        ),
    };
    let beside = place.launcher.program.as_deref().and_then(Path::parent);
    let dirs = beside.into_iter().chain([Path::new(LIBEXEC_DIR)]);
    if !dirs.map(|dir| dir.join(HOOK)).any(|file| file.is_file()) {
        report.add(
            Level::Problem,
            "nri-oci-hook",
            format!("it is neither beside nrid nor in {LIBEXEC_DIR}"),
        );
        report
            .advise("Without it plugins do not hear of containers that are made by `run`, as BuildKit does.");
    }
    let settings = &place.config.runtime;
    let named = settings.names.values().map(|n| &n.path).chain(&settings.path);
    for path in named {
        match find(path) {
            Some(found) => report.add(Level::Ok, "runtime", found.display().to_string()),
            None => {
                report.add(Level::Problem, "runtime", format!("{} is not found", path.display()))
            }
        };
    }
    if settings.path.is_none() {
        match runtime_candidates(settings).iter().find_map(|c| find(c)) {
            Some(found) => report.add(
                Level::Ok,
                "runtime",
                format!("{}, the first of the candidates", found.display()),
            ),
            None => report.add(Level::Problem, "runtime", "none of the candidates is found"),
        };
    }
}

/// A bare name in the usual directories, anything else where it says.
fn find(name: &Path) -> Option<PathBuf> {
    if name.is_absolute() {
        return name.is_file().then(|| name.to_owned());
    }
    standard_dirs().map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// Whose the sockets are that plugins may connect to.
fn sockets(report: &mut Report, place: &Place, status: Option<&Status>, engines: &[RunningEngine]) {
    let mut paths = vec![place.launcher.state_dir.join(OWN_SOCKET)];
    paths.extend(place.config.socket_path.clone().filter(|p| !p.as_os_str().is_empty()));
    paths.push(PLUGIN_SOCKET.into());
    for engine in engines {
        if let NriState::On { socket: Some(socket), .. } = &engine.nri {
            paths.push(socket.clone());
        }
    }
    let listed = |path: &Path| {
        status.is_some_and(|s| s.sockets.iter().any(|l| l.0.as_os_str() == path.as_os_str()))
    };
    let mut seen: Vec<PathBuf> = Vec::new();
    for path in paths {
        // `/var/run` is a link, and one socket is one line.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.contains(&real) {
            continue;
        }
        seen.push(real);
        socket(report, &path, listed(&path), status, engines);
    }
}

fn socket(
    report: &mut Report,
    path: &Path,
    listed: bool,
    status: Option<&Status>,
    engines: &[RunningEngine],
) {
    let shown = path.display();
    let owner = listener(path);
    let nrid = status.and_then(|s| i32::try_from(s.pid).ok());
    match owner {
        // systemd made it for nrid.
        Some(pid) if Some(pid) == nrid || (pid == 1 && listed) => {
            report.add(
                Level::Ok,
                "socket",
                format!("{shown}: ours; plugins that connect there see every engine's containers"),
            );
        }
        Some(pid) => {
            let whose = engines.iter().find(|e| e.pid == pid);
            let name =
                whose.map_or_else(|| describe(pid), |e| format!("{} (process {pid})", e.name));
            report.add(
                if listed { Level::Problem } else { Level::Note },
                "socket",
                format!("{shown}: {name}'s; plugins that connect there do not see us"),
            );
            if listed {
                report.advise("It took the path from nrid after nrid had started: `nrictl stop`, and plugins to our own socket.");
            }
        }
        None if listed => {
            report.add(
                Level::Problem,
                "socket",
                format!(
                    "{shown}: was ours, and somebody removed it (containerd does so when it starts)"
                ),
            );
            report.advise("`nrictl stop`, then `nrictl start`; or let plugins use our own socket.");
        }
        None if path.exists() => {
            report.add(Level::Note, "socket", format!("{shown}: nobody listens there"));
        }
        None => {
            report.add(Level::Note, "socket", format!("{shown}: is not there"));
        }
    }
}

fn plugins(report: &mut Report, place: &Place, status: Option<&Status>, engines: &[RunningEngine]) {
    let ours = status.is_some_and(|s| s.plugin_dir.is_some());
    let dir = place.config.plugin_path.clone().unwrap_or_else(|| PLUGIN_DIR.into());
    let launches = |engine: &&RunningEngine| match &engine.nri {
        NriState::On { plugin_path, .. } => {
            plugin_path.as_deref().unwrap_or(Path::new(PLUGIN_DIR)) == dir
        }
        NriState::Off => false,
    };
    match engines.iter().find(launches) {
        None if status.is_some() && !ours => {
            report.add(
                Level::Note,
                "plugins",
                format!(
                    "{}: were left to an engine; nrid launches them with the next container",
                    dir.display()
                ),
            );
        }
        None => {
            report.add(Level::Ok, "plugins", format!("{}: launched by nrid", dir.display()));
        }
        Some(engine) if place.config.plugin_path.is_none() && !ours => {
            report.add(
                Level::Note,
                "plugins",
                format!(
                    "{}: launched by {} (process {}), not by nrid",
                    dir.display(),
                    engine.name,
                    engine.pid
                ),
            );
            report.advise("Set plugin_path in the configuration to have nrid launch plugins of its own, for all containers that are not that engine's.");
        }
        Some(engine) => {
            report.add(
                Level::Note,
                "plugins",
                format!(
                    "{}: launched by nrid and by {} (process {}), once by each",
                    dir.display(),
                    engine.name,
                    engine.pid
                ),
            );
        }
    }
}

fn in_charge(report: &mut Report, config: &Config, engine: &RunningEngine) {
    let setting = match engine.name.as_str() {
        "containerd" => config.engines.containerd,
        "crio" => config.engines.crio,
        _ => config.engines.docker,
    };
    let version = engine.version.as_deref().unwrap_or("of unknown version");
    let who = format!("{} {version} (process {})", engine.name, engine.pid);
    let on = engine.nri != NriState::Off;
    let kind = if engine.name == "containerd" { "CRI containers" } else { "containers" };
    match (setting, on) {
        (InCharge::Ours, true) => {
            report.add(
                Level::Problem,
                "in charge",
                format!("{who}: its own NRI is on, and so is ours: its {kind} are adapted twice"),
            );
            report.advise("Switch its own NRI off (`nrictl install --nri ours` does), or remove its line from [engines].");
        }
        (InCharge::Auto, true) | (InCharge::Engine, _) => {
            report.add(
                Level::Note,
                "in charge",
                format!("{who}: its own NRI; its {kind} pass through us unchanged"),
            );
        }
        (_, false) => {
            report.add(
                Level::Ok,
                "in charge",
                format!("{who}: we are, for what it runs through us"),
            );
        }
    }
    if setting == InCharge::Engine && !on {
        report.add(
            Level::Problem,
            "in charge",
            format!(
                "{who}: nobody, since its own NRI is off and [engines] leaves its {kind} to it"
            ),
        );
    }
}
