//! Findings about engines.

use crate::site::{FakeDockerd, Site, copy_program, daemon_json, make_executable};
use serde_json::{Value, json};
use std::{
    io::{Read, Write},
    os::unix::net::UnixListener,
    thread,
};

#[test]
fn an_engine_without_our_runtime_has_no_findings() {
    let site = Site::new("");
    site.write_etc("docker/daemon.json", r#"{"runtimes": {"kata": {"path": "/usr/bin/kata"}}}"#);
    site.write_etc("containerd/config.toml", "this is not TOML");
    if let Some(command) = site.with_etc() {
        let findings = site.doctor_by(command);
        findings.check("engine-none", "info", "no engine has nri-container-runtime");
        for code in ["engine-runtime", "engine-unreadable", "engine-uninstalled"] {
            assert!(findings.texts(code).is_empty(), "{code}");
        }
    }
    let dockerd = FakeDockerd::start(&site, "{}");
    let findings = site.doctor();
    for code in ["adapted-by-nrid", "adapted-by-engine", "engine-runtime"] {
        let texts = findings.texts(code);
        assert!(!texts.iter().any(|text| text.contains(&dockerd.shown())), "{texts:?}");
    }
}

#[test]
fn each_engine_with_our_runtime_is_named_with_its_file_and_default() {
    let site = Site::new("");
    let wrapper = site.path("nri-container-runtime");
    site.write_etc("docker/daemon.json", &daemon_json(&site, r#""default-runtime": "nri","#));
    site.write_etc(
        "containers/containers.conf",
        &format!("[engine]\nruntime = 'crun'\n[engine.runtimes]\nnri = [{wrapper:?}]\n"),
    );
    site.write_etc(
        "containerd/config.toml",
        &format!(
            "version = 2\n[plugins.'io.containerd.grpc.v1.cri'.containerd.runtimes.nri.options]\n\
             BinaryName = {wrapper:?}\n"
        ),
    );
    site.write_etc(
        "crio/crio.conf.d/10-ours.conf",
        "[crio.runtime.runtimes.nri]\nruntime_path = '/nowhere/nri-container-runtime'\n",
    );
    site.write_etc("isulad/daemon.json", "{");
    site.write_etc(
        "nri-container-runtime/installed.json",
        r#"{"version": 1, "engines": {"isulad": {}}}"#,
    );
    // A script around the wrapper counts.
    let script = site.path("script");
    std::fs::write(&script, format!("#!/bin/sh\nexec {} \"$@\"\n", wrapper.display())).unwrap();
    make_executable(&script);
    let scripted = format!("[engine.runtimes]\nscripted = [{script:?}]\n");
    site.write_etc("containers/containers.conf.d/10.conf", &scripted);
    let Some(command) = site.with_etc() else { return };
    let findings = site.doctor_by(command);
    findings.check("engine-runtime", "ok", "podman: runtime scripted in");
    let docker = "docker: runtime nri in /etc/docker/daemon.json calls";
    findings.check("engine-runtime-default", "ok", docker);
    findings.check(
        "engine-runtime",
        "ok",
        "podman: runtime nri in /etc/containers/containers.conf",
    );
    findings.check(
        "engine-runtime",
        "ok",
        "containerd: runtime nri in /etc/containerd/config.toml",
    );
    let crio = "crio: runtime nri in /etc/crio/crio.conf.d/10-ours.conf";
    findings.check("engine-program-missing", "problem", crio);
    findings.check("engine-unreadable", "warning", "isulad: ");

    site.write_etc("isulad/daemon.json", "{}");
    let Some(command) = site.with_etc() else { return };
    let findings = site.doctor_by(command);
    findings.check("engine-uninstalled", "warning", "isulad: installed.json has an installation");
}

#[test]
fn an_engine_in_a_mount_namespace_of_its_own_is_reported_with_what_it_cannot_see() {
    let site = Site::new("");
    let dockerd = FakeDockerd::start(&site, &daemon_json(&site, ""));
    let text = format!("docker {}", dockerd.shown());
    // Here `nrictl` is in the other namespace, which makes no difference.
    let Some(command) = site.unshared("true") else { return };
    let findings = site.doctor_by(command);
    findings.check("engine-own-mounts", "info", &text);
    findings.check("engine-runtime", "ok", &text);
    assert!(findings.texts("engine-state-dir-hidden").is_empty());
    let hidden = format!("mount -t tmpfs none '{}'", site.path("s").display());
    let Some(command) = site.unshared(&hidden) else { return };
    let findings = site.doctor_by(command);
    findings.check("engine-state-dir-hidden", "problem", &text);
}

#[test]
fn an_engine_that_reads_another_file_than_the_one_with_our_runtime_is_reported() {
    let site = Site::new("");
    site.write_etc("docker/daemon.json", &daemon_json(&site, ""));
    copy_program("/bin/sh", &site.path("dockerd"));
    std::fs::write(site.path("daemon.json"), "{}").unwrap();
    // In a pid namespace, since the engines of other tests must not be found.
    let script = format!(
        "cd '{}' && {{ ./dockerd -c 'touch ready; sleep 1000; :' x --config-file daemon.json & }}; \
         until [ -e ready ]; do sleep 0.01; done; ",
        site.path("").display()
    );
    let Some(command) = site.with_etc_after(&script) else { return };
    let text = format!("reads {}", site.path("daemon.json").display());
    let found = site.doctor_by(command).check("engine-other-files", "warning", &text);
    assert!(found.contains("does not see our runtime in /etc/docker/daemon.json"), "{found}");
}

/// The process reads the usual file, which is looked at for the next start as well.
#[test]
fn an_unreadable_file_of_a_running_engine_is_named_once() {
    let site = Site::new("");
    copy_program("/bin/sh", &site.path("dockerd"));
    site.write_etc("docker/daemon.json", "{");
    site.write_etc(
        "nri-container-runtime/installed.json",
        r#"{"version": 1, "engines": {"docker": {}}}"#,
    );
    let script = format!(
        "cd '{}'; ./dockerd -c 'touch ready; sleep 1000; :' x & \
         until [ -e ready ]; do sleep 0.01; done; ",
        site.path("").display()
    );
    let Some(command) = site.with_etc_after(&script) else { return };
    let findings = site.doctor_by(command);
    findings.check("engine-unreadable", "warning", "docker: /etc/docker/daemon.json");
    assert_eq!(findings.texts("engine-unreadable").len(), 1);
}

#[test]
fn docker_whose_own_nri_is_on_is_reported() {
    let on = r#""nri-opts": {"enable": true, "socket-path": "/run/docker-nri.sock"},"#;
    let (by_engine, by_us) = ("[engines]\ndocker = 'engine'\n", "");
    for (config, members, code, severity, text) in [
        (by_us, on, "adapted-by-docker-too", "warning", "both ours and its own NRI adapt"),
        (by_engine, on, "adapted-by-engine", "info", "its own NRI adapts its containers"),
        (by_engine, "", "adapted-by-none", "problem", "no NRI adapts its containers"),
        (by_us, "", "adapted-by-nrid", "ok", "ours adapts the containers"),
    ] {
        let site = Site::new(config);
        let dockerd = FakeDockerd::start(&site, &daemon_json(&site, members));
        let text = format!("{}: {text}", dockerd.shown());
        let found = site.doctor().check(code, severity, &text);
        let advice = "Plugins connected to /run/docker-nri.sock or launched from \
                      /usr/libexec/docker/nri-plugins";
        assert_eq!(found.contains(advice), code == "adapted-by-docker-too", "{found}");
    }
}

#[test]
fn isulad_whose_own_nri_is_on_keeps_the_containers_of_its_pods() {
    let site = Site::new("");
    let on = r#""nri-support": true, "enable-cri-v1": true,"#;
    site.write_etc("isulad/daemon.json", &daemon_json(&site, on));
    copy_program("/bin/sh", &site.path("isulad"));
    // In a pid namespace, since its configuration has a fixed path.
    let script = format!(
        "cd '{}' && {{ ./isulad -c 'touch ready; sleep 1000; :' & }}; \
         until [ -e ready ]; do sleep 0.01; done; ",
        site.path("").display()
    );
    let Some(command) = site.with_etc_after(&script) else { return };
    let findings = site.doctor_by(command);
    findings.check("adapted-by-engine", "info", "its own NRI adapts its CRI containers");
    let launched = "/opt/nri/plugins: launched by isulad";
    findings.check("plugins-launched-later", "info", launched);
    site.configure("[engines]\nisulad = 'ours'\n");
    std::fs::remove_file(site.path("ready")).unwrap();
    let Some(command) = site.with_etc_after(&script) else { return };
    site.doctor_by(command).check("adapted-by-both", "problem", "both its own NRI and ours");
}

#[test]
fn an_engine_that_adapts_containers_besides_nrid_is_a_problem() {
    let site = Site::new("[engines]\ncontainerd = 'ours'\n");
    let program = site.path("containerd");
    copy_program("/bin/sh", &program);
    let file = site.path("containerd.toml");
    let nri = "version = 2\n[plugins.'io.containerd.nri.v1.nri']\ndisable = false\n\
               disable_connections = true\nplugin_path = '/nowhere'\n";
    std::fs::write(&file, nri).unwrap();
    let mut command = std::process::Command::new(program);
    // A script in a file, since `-c` names the configuration of containerd.
    let script = site.path("script");
    std::fs::write(&script, "echo ready; read line").unwrap();
    command.arg(script).arg("--config").arg(file);
    let containerd = FakeDockerd::of(command);
    let text = format!("{}: both its own NRI and ours adapt", containerd.shown());
    site.doctor().check("adapted-by-both", "problem", &text);
}

/// Listens on a socket as Docker does, and replies to each request with this text.
fn docker_api(site: &Site, reply: String) {
    let socket = site.path("docker.sock");
    let _ = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(socket).unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                connection.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            assert!(request.starts_with("GET /info HTTP/1.0\r\n"), "{request}");
            connection.write_all(reply.as_bytes()).unwrap();
            // Without a reply, the connection stays open.
            if reply.is_empty() {
                std::mem::forget(connection);
            }
        }
    });
}

/// A reply of Docker, which has these runtimes.
fn info(runtimes: &Value, default: &str) -> String {
    let body = json!({"ID": "x", "Runtimes": runtimes, "DefaultRuntime": default});
    format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
}

#[test]
fn a_docker_that_has_not_read_its_file_is_a_problem() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root asks Docker");
    }
    let site = Site::new("");
    let wrapper = site.path("nri-container-runtime");
    let hosts = format!(r#""hosts": ["fd://", "unix://{}"],"#, site.path("docker.sock").display());
    let as_default = format!(r#"{hosts} "default-runtime": "nri","#);
    let (runc, ours) = (json!({"path": "runc"}), json!({"path": wrapper}));
    let without = json!({"runc": runc, "io.containerd.runc.v2": runc});
    let with = json!({"runc": runc, "nri": ours});
    let elsewhere = json!({"runc": runc, "nri": {"path": "/old/nri-container-runtime"}});
    let reload = "`systemctl reload docker`";
    for (members, runtimes, default, problem, advice) in [
        (&hosts, &without, "runc", "it has no runtime nri", reload),
        (&hosts, &elsewhere, "runc", "its runtime nri calls /old/nri-container-runtime", reload),
        (&as_default, &with, "runc", "its default runtime is runc, not nri", reload),
        (&as_default, &without, "runc", "it has no runtime nri", reload),
        // A reload leaves the default as it is if the file has none.
        (&hosts, &with, "nri", "its default runtime is nri", "`systemctl restart docker`"),
        (&as_default, &with, "nri", "", ""),
        (&hosts, &with, "runc", "", ""),
    ] {
        let dockerd = FakeDockerd::start(&site, &daemon_json(&site, members));
        docker_api(&site, info(runtimes, default));
        let (findings, shown) = (site.doctor(), format!("docker {}", dockerd.shown()));
        if problem.is_empty() {
            let code = if default == "nri" { "engine-runtime-default" } else { "engine-runtime" };
            let found = findings.check(code, "ok", &format!("{shown}: runtime nri in"));
            assert!(found.contains("default runtime, as Docker says\n"), "{found}");
        } else {
            let found = findings.check("engine-file-unread", "problem", &shown);
            assert!(found.contains(problem) && found.contains(advice), "{found}");
            let is_claim = |text: &&str| text.contains(&shown) && text.contains("as Docker says");
            assert!(!findings.texts("engine-runtime-default").iter().any(is_claim));
        }
    }
}

#[test]
fn a_docker_that_does_not_answer_is_an_information() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root asks Docker");
    }
    let site = Site::new("");
    let hosts = format!(r#""hosts": ["unix://{}"],"#, site.path("docker.sock").display());
    let dockerd = FakeDockerd::start(&site, &daemon_json(&site, &hosts));
    let shown = format!("docker {}: does not answer on ", dockerd.shown());
    let endless = format!("HTTP/1.0 200 OK\r\n\r\n{}", " ".repeat(20 << 20));
    let silent = [
        ("", "no answer within 2s"),
        ("HTTP/1.0 500 Oops\r\n\r\n{}", "status 500"),
        ("HTTP/1.0 200 OK\r\n\r\n{", "EOF"),
        ("x\r\n\r\n", "invalid"),
        (&endless, "more than"),
    ];
    for (reply, why) in silent {
        docker_api(&site, reply.to_owned());
        let findings = site.doctor();
        let found = findings.check("engine-silent", "info", &shown);
        assert!(found.contains(why), "{found}");
        let text = format!("docker {}: runtime nri in ", dockerd.shown());
        let found = findings.check("engine-runtime", "ok", &text);
        assert!(found.contains("; it is not the default runtime there\n"), "{found}");
    }
}
