//! Containers of engines that the wrapper did not start. Each engine is a shell with the name of
//! its monitor, in a pid namespace of its own.

use crate::site::{Findings, Site, copy_program, daemon_json};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    path::Path,
    process::Command,
};

/// An id as Docker and Podman generate them.
fn id(first: &str) -> String {
    format!("{first}{}", "0".repeat(64 - first.len()))
}

/// Containers of fake engines below a site.
struct Engines<'a> {
    site: &'a Site,
    /// Starts the monitors, and waits until each has its container.
    script: String,
}

impl<'a> Engines<'a> {
    fn new(site: &'a Site) -> Self {
        for name in ["containerd-shim-runc-v2", "conmon"] {
            copy_program("/bin/sh", &site.path(name));
        }
        Self { site, script: String::new() }
    }

    fn write(&self, file: &Path, text: &str) {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Adds a monitor that writes the process id of its container to `pid_file`.
    fn add(&mut self, program: &str, work: &Path, pid_file: &Path, arguments: &str) {
        let (program, work, pid_file) =
            (self.site.path(program), work.display(), pid_file.display());
        let name = format!("{}.sh", pid_file.to_string().replace('/', "_"));
        let script = self.site.path(&name);
        self.write(&script, &format!("sleep 60 & echo $! >'{pid_file}.new'\nwait\n"));
        let (program, script) = (program.display(), script.display());
        self.script += &format!(
            "(cd '{work}' && exec '{program}' '{script}' {arguments}) >&2 & \
             until [ -s '{pid_file}.new' ]; do :; done; mv '{pid_file}.new' '{pid_file}' && "
        );
    }

    /// Adds a container of Docker; `runtime` is what the shim calls.
    fn docker(&mut self, id: &str, name: &str, runtime: &str, labels: &Value) {
        let bundle = self.site.path("daemon/io.containerd.runtime.v2.task/moby").join(id);
        let files = self.site.path("docker/containers").join(id);
        let mount = json!({"source": files.join("hostname")});
        self.write(&bundle.join("config.json"), &json!({"mounts": [mount]}).to_string());
        self.write(&bundle.join("runtime"), runtime);
        let own = json!({"ID": id, "Name": format!("/{name}"), "Config": {"Labels": labels}});
        self.write(&files.join("config.v2.json"), &own.to_string());
        self.write(&files.join("hostconfig.json"), r#"{"Runtime": "runc"}"#);
        let pid_file = bundle.join("init.pid");
        self.add(
            "containerd-shim-runc-v2",
            &bundle,
            &pid_file,
            &format!("-namespace moby -id {id}"),
        );
    }

    /// Adds a process that `doctor` takes for dockerd.
    fn dockerd(&mut self) {
        let (program, script) = (self.site.path("dockerd"), self.site.path("dockerd.sh"));
        copy_program("/bin/sh", &program);
        fs::write(&script, "while :; do sleep 60; done\n").unwrap();
        self.script += &format!(
            "('{}' '{}' >&2 & until grep -q dockerd /proc/$!/comm; do :; done) && ",
            program.display(),
            script.display()
        );
    }

    fn podman(&mut self, id: &str, name: &str, runtime: &str) {
        let bundle = self.site.path("storage/overlay-containers").join(id).join("userdata");
        let config = json!({"annotations": {"io.container.manager": "libpod"}});
        self.write(&bundle.join("config.json"), &config.to_string());
        let (shown, pid_file) = (bundle.display(), bundle.join("pidfile"));
        let arguments = format!(
            "-c {id} -u {id} -r {runtime} -b {shown} -p {} -n {name} --exit-command podman",
            pid_file.display()
        );
        self.add("conmon", Path::new("/"), &pid_file, &arguments);
    }

    fn ctr(&mut self, id: &str) {
        let bundle = self.site.path("state/io.containerd.runtime.v2.task/default").join(id);
        self.write(&bundle.join("config.json"), "{}");
        let arguments = format!("-namespace default -id {id}");
        self.add("containerd-shim-runc-v2", &bundle, &bundle.join("init.pid"), &arguments);
    }

    /// Returns a command that ends with `nrictl`, which sees these engines only.
    fn command(&self) -> Option<Command> {
        // A doctor of root looks for files of root, in a home directory as well.
        self.site.with_etc_after(&self.script)
    }
}

/// A site with Docker, containerd and Podman, whose default runtime is the wrapper if `default`.
fn site(default: bool) -> Site {
    let site = Site::new("");
    let member = if default { r#""default-runtime": "nri","# } else { "" };
    site.write_etc("docker/daemon.json", &daemon_json(&site, member));
    site
}

fn output(site: &Site, engines: &Engines<'_>, arguments: &[&str]) -> Option<(i32, String, String)> {
    let output = site.run(engines.command()?, arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Some((output.status.code().unwrap(), text(output.stdout), text(output.stderr)))
}

fn doctor(site: &Site, engines: &Engines<'_>) -> Option<Findings> {
    Some(site.doctor_by(engines.command()?))
}

#[test]
fn containers_of_all_engines_are_listed_with_their_runtimes() {
    let site = site(false);
    let wrapper = site.path("nri-container-runtime");
    let wrapper = wrapper.to_str().unwrap();
    let mut engines = Engines::new(&site);
    engines.docker(&id("a"), "web", "runc", &json!({}));
    engines.docker(&id("b"), "db", wrapper, &json!({}));
    engines.podman(&id("c"), "cache", "/usr/bin/crun");
    engines.ctr("task");
    // Records of an earlier start of these containers, and of one that is being created.
    let record = |id: &str, pid, status| json!({"key": {"id": id}, "pid": pid, "status": status});
    site.write_record("a", &record(&id("a"), None, "stopped"));
    site.write_record("b", &record(&id("b"), Some(1), "running"));
    site.write_record("task", &record("task", None, "creating"));
    let Some((code, json, err)) =
        output(&site, &engines, &["containers", "--all-runtimes", "--json"])
    else {
        return;
    };
    assert_eq!((code, &*err), (0, ""));
    let found: Value = serde_json::from_str(&json).unwrap();
    let found = found["containers"].as_array().unwrap();
    let facts = found.iter().map(|container| {
        assert!(container["pid"].as_i64().unwrap() > 0);
        ["id", "name", "engine", "runtime", "runtime_name", "wrapper"]
            .map(|key| container[key].as_str().unwrap().to_owned())
    });
    let expected = [
        ["task", "task", "ctr", "runc", "", "yes"],
        [&id("b"), "db", "docker", wrapper, "runc", "passed-through"],
        [&id("a"), "web", "docker", "runc", "runc", "no"],
        [&id("c"), "cache", "podman", "/usr/bin/crun", "", "no"],
    ];
    assert_eq!(facts.collect::<Vec<_>>(), expected);
    let table = output(&site, &engines, &["containers", "--all-runtimes"]).unwrap().1;
    let summary = "4 running containers, 2 without nri-container-runtime, 1 passed through it\n";
    assert!(table.ends_with(summary), "{table}");
}

#[test]
fn containers_that_keep_another_runtime_are_a_warning_if_the_wrapper_is_the_default() {
    let site = site(true);
    let mut engines = Engines::new(&site);
    engines.docker(&id("a"), "web", "runc", &json!({}));
    engines.podman(&id("c"), "cache", "/usr/bin/crun");
    let Some(findings) = doctor(&site, &engines) else { return };
    let text = "docker: 1 running container without nri-container-runtime: web (runc), although";
    let found = findings.check("containers-keep-runtime", "warning", text);
    assert!(found.contains("`nrictl containers --all-runtimes`"), "{found}");
    // Nothing is installed for Podman.
    assert_eq!(findings.texts("containers-keep-runtime").len(), 1);
    assert!(findings.texts("containers-without-wrapper").is_empty());

    site.write_etc("docker/daemon.json", &daemon_json(&site, ""));
    let findings = doctor(&site, &engines).unwrap();
    let text = "docker: 1 running container without nri-container-runtime: web (runc)";
    findings.check("containers-without-wrapper", "info", text);
    site.configure("[engines]\ndocker = \"engine\"\n");
    engines.dockerd();
    let findings = doctor(&site, &engines).unwrap();
    assert!(findings.texts("containers-without-wrapper").is_empty());
}

#[test]
fn containers_of_a_bypassed_wrapper_are_a_warning() {
    let site = site(false);
    let wrapper = site.path("nri-container-runtime");
    let wrapper = wrapper.to_str().unwrap();
    let mut engines = Engines::new(&site);
    engines.docker(&id("a"), "web", "runc", &json!({}));
    engines.docker(&id("b"), "db", wrapper, &json!({}));
    let Some(findings) = doctor(&site, &engines) else { return };
    let text = "docker: 1 running container of nri-container-runtime without plugins: db (";
    let found = findings.check("containers-passed-through", "warning", text);
    assert!(found.contains("bypass"), "{found}");

    site.configure("[engines]\ndocker = \"engine\"\n");
    engines.dockerd();
    let findings = doctor(&site, &engines).unwrap();
    assert!(findings.texts("containers-passed-through").is_empty());
}

#[test]
fn an_engine_whose_file_system_hangs_does_not_hang_nrictl() {
    let site = site(true);
    let mut engines = Engines::new(&site);
    engines.podman(&id("c"), "cache", "/usr/bin/crun");
    // No one replies to the kernel, which waits for the first reply of a FUSE file system.
    let files = site.path("docker/containers");
    fs::create_dir_all(&files).unwrap();
    engines.docker(&id("a"), "web", "runc", &json!({}));
    let options = "fd=0,rootmode=40000,user_id=0,group_id=0";
    engines.script += &format!("mount -i -t fuse -o {options} hangs '{}' && ", files.display());
    let hanging = || {
        let Ok(fuse) = File::options().read(true).write(true).open("/dev/fuse") else {
            println!("skipped: there is no /dev/fuse");
            return None;
        };
        let mut command = engines.command()?;
        command.stdin(fuse);
        Some(command)
    };
    let Some(command) = hanging() else { return };
    let directory = site.path("daemon/io.containerd.runtime.v2.task/moby");
    let text = format!("{}: not read within 5s", directory.display());
    site.doctor_by(command).check("containers-unread", "warning", &text);

    let output = site.run(hanging().unwrap(), &["containers", "--all-runtimes", "--json"]);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["containers"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["containers"][0]["name"], "cache");
    assert_eq!(found["unread"], json!([directory]));
    let warning = String::from_utf8(output.stderr).unwrap();
    assert!(warning.contains(&text), "{warning}");
}

#[test]
fn explain_says_how_to_create_a_container_of_another_runtime_again() {
    let site = site(true);
    let labels = json!({"com.docker.compose.project": "shop", "com.docker.compose.service": "s"});
    let mut engines = Engines::new(&site);
    engines.docker(&id("a"), "web", "runc", &json!({}));
    engines.docker(&id("b"), "shop-s-1", "runc", &labels);
    let Some((code, _, err)) = output(&site, &engines, &["explain", "web"]) else { return };
    let expected = "nrictl: web (a00000000000) runs under runc, without nri-container-runtime: no \
                    plugin of nrid saw it. To change that, remove it and create it again with \
                    `docker run …` (docs/existing-containers.md)\n";
    assert_eq!((code, &*err), (1, expected));
    let (code, _, err) = output(&site, &engines, &["explain", &id("b")[..12]]).unwrap();
    let command = "`docker compose --project-name shop up --detach --force-recreate s`";
    assert!(code == 1 && err.contains(command), "{err}");
    engines.docker(
        &id("d"),
        "bypassed",
        site.path("nri-container-runtime").to_str().unwrap(),
        &json!({}),
    );
    let (code, _, err) = output(&site, &engines, &["explain", "bypassed"]).unwrap();
    let expected = "bypassed (d00000000000) passed through nri-container-runtime: no plugin";
    assert!(code == 1 && err.contains(expected), "{err}");
    let (code, _, err) = output(&site, &engines, &["explain", "nosuch"]).unwrap();
    assert!(code == 1 && !err.contains("runs under"), "{err}");
}

#[test]
fn an_installation_as_the_default_says_what_becomes_of_existing_containers() {
    let site = site(false);
    let mut engines = Engines::new(&site);
    engines.docker(&id("a"), "web", "runc", &json!({}));
    let wrapper = site.path("nri-container-runtime");
    let wrapper = ["--wrapper", wrapper.to_str().unwrap()];
    let install = |more: &[&str]| {
        let arguments = [&["install", "docker", "--dry-run"], &wrapper[..], more].concat();
        output(&site, &engines, &arguments)
    };
    let Some((code, out, err)) = install(&["--default"]) else { return };
    assert_eq!(code, 0, "{err}");
    let note = "note: existing containers, also stopped ones, keep their runtime, also over a \
                restart, until they are created again (docs/existing-containers.md); 1 runs \
                without the wrapper now: `nrictl containers --all-runtimes`\n";
    assert!(out.contains(note), "{out}");
    let (_, out, _) = install(&[]).unwrap();
    assert!(!out.contains("existing containers"), "{out}");
}
