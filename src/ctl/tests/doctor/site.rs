//! [`Site`], a directory with a configuration and a state directory, and the findings of `nrictl
//! doctor` there.

use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};
use tempfile::TempDir;

/// Exit code if a finding is a problem.
const PROBLEM: i32 = 4;

pub(crate) struct Site(TempDir);

impl Site {
    /// Creates the directory, with this configuration.
    pub(crate) fn new(config: &str) -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        fs::create_dir(site.path("s")).unwrap();
        site.configure(config);
        site
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn configure(&self, config: &str) {
        fs::write(self.path("config.toml"), config).unwrap();
    }

    /// Adds the options of this site, and the arguments, to a command that ends with `nrictl`.
    pub(crate) fn run(&self, mut nrictl: Command, arguments: &[&str]) -> Output {
        nrictl.arg("--config").arg(self.path("config.toml"));
        nrictl.arg("--state-dir").arg(self.path("s")).args(arguments).output().unwrap()
    }

    /// Returns the findings.
    pub(crate) fn doctor(&self) -> Findings {
        self.doctor_by(nrictl())
    }

    /// Returns the findings of a command that ends with `nrictl`.
    pub(crate) fn doctor_by(&self, nrictl: Command) -> Findings {
        Findings::of(&self.run(nrictl, &["doctor", "--json"]))
    }

    /// Returns a command that runs `nrictl` in a mount namespace of its own, after `script`. `None`
    /// if that is not possible here.
    pub(crate) fn unshared(&self, script: &str) -> Option<Command> {
        self.unshared_by(&[], script)
    }

    /// As [`Site::unshared`], also in a pid namespace without engines, and with the files of this
    /// site's directory `etc` as `/etc`.
    pub(crate) fn with_etc(&self) -> Option<Command> {
        self.with_etc_after("")
    }

    /// As [`Site::with_etc`], after `script`, whose processes are the only ones that `nrictl` sees.
    pub(crate) fn with_etc_after(&self, script: &str) -> Option<Command> {
        let options = ["--pid", "--fork", "--kill-child", "--mount-proc"];
        let etc = format!("{script}mount --bind '{}' /etc", self.path("etc").display());
        self.unshared_by(&options, &etc)
    }

    fn unshared_by(&self, options: &[&str], script: &str) -> Option<Command> {
        let can = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
        if !can.is_ok_and(|status| status.success()) {
            println!("skipped: mount namespaces cannot be created");
            return None;
        }
        let mut command = Command::new("unshare");
        command.arg("--mount").args(options).args(["sh", "-c"]);
        command.arg(format!("{script} && exec \"$0\" \"$@\"")).arg(env!("CARGO_BIN_EXE_nrictl"));
        Some(command)
    }

    /// Writes the record of a container.
    pub(crate) fn write_record(&self, name: &str, record: &Value) {
        let file = self.path("s/containers").join(format!("{name}.json"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, record.to_string()).unwrap();
    }

    /// Writes a file below this site's directory `etc`.
    pub(crate) fn write_etc(&self, file: &str, text: &str) {
        let file = self.path("etc").join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
}

/// Copies a program by another process: a child that another test forks meanwhile would keep the
/// copy open for writing, and executing it would fail (ETXTBSY).
pub(crate) fn copy_program(from: impl AsRef<Path>, to: &Path) {
    let copied = Command::new("cp").arg(from.as_ref()).arg(to).status().unwrap();
    assert!(copied.success());
}

pub(crate) fn nrictl() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nrictl"))
}

/// The findings of one call.
pub(crate) struct Findings(Vec<Value>);

impl Findings {
    fn of(output: &Output) -> Self {
        let report: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
        let findings = report["findings"].as_array().unwrap().clone();
        let has_problem = findings.iter().any(|f| f["severity"] == "problem");
        let code = if has_problem { PROBLEM } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{report:#}");
        assert_eq!(report["ok"], !has_problem);
        Self(findings)
    }

    /// Checks that there is a finding with these values, whose text contains `text`. Returns its
    /// text and advice.
    #[track_caller]
    pub(crate) fn check(&self, code: &str, severity: &str, text: &str) -> String {
        let is_it = |f: &&Value| f["code"] == code && f["text"].as_str().unwrap().contains(text);
        let found = self.0.iter().find(is_it);
        let found = found.unwrap_or_else(|| panic!("no {code} with {text:?} in {:#?}", self.0));
        assert_eq!(found["severity"], severity, "{found:#}");
        let advice = found["advice"].as_str().unwrap_or_default();
        format!("{}\n{advice}", found["text"].as_str().unwrap())
    }

    /// Returns the texts of all findings with this code.
    pub(crate) fn texts(&self, code: &str) -> Vec<&str> {
        let with_code = self.0.iter().filter(|finding| finding["code"] == code);
        with_code.map(|finding| finding["text"].as_str().unwrap()).collect()
    }
}

/// A process that `doctor` takes for a dockerd with this `daemon.json`: a shell called `dockerd`.
pub(crate) struct FakeDockerd(Child);

impl FakeDockerd {
    pub(crate) fn start(site: &Site, daemon_json: &str) -> Self {
        let (program, file) = (site.path("dockerd"), site.path("daemon.json"));
        copy_program("/bin/sh", &program);
        fs::write(&file, daemon_json).unwrap();
        let mut command = Command::new(program);
        command.args(["-c", "echo ready; read line", "dockerd", "--config-file"]).arg(file);
        Self::of(command)
    }

    /// Starts another program, and waits until it has printed a line.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The kernel sets the process's name and command line after `spawn` may have returned.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        Self(child)
    }

    /// Returns how findings name the process.
    pub(crate) fn shown(&self) -> String {
        format!("(process {})", self.0.id())
    }
}

impl Drop for FakeDockerd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates a program that engines take for the wrapper, and returns a `daemon.json` that has it as
/// the runtime `nri`, besides `members`.
pub(crate) fn daemon_json(site: &Site, members: &str) -> String {
    let wrapper = site.path("nri-container-runtime");
    fs::write(&wrapper, "").unwrap();
    make_executable(&wrapper);
    format!(r#"{{{members} "runtimes": {{"nri": {{"path": "{}"}}}}}}"#, wrapper.display())
}

pub(crate) fn make_executable(file: &Path) {
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}
