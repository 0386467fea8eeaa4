//! Plugins that exist and are called for no container: each command says so, in one line that ends
//! in the command that mends it.

use crate::{
    fake_nrid::{FakeNrid, doctor, healthy},
    site::{FakeDockerd, Findings, Site, copy_program, daemon_json, make_executable, nrictl},
};
use nri_control::{PluginChange, PluginStatus, Status};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

/// Creates a site whose dockerd has the wrapper, with these lines in the configuration, and a
/// plugin of this mode.
fn site(config: &str, members: &str, mode: u32) -> (Site, FakeDockerd, PathBuf) {
    let site = Site::new("");
    let plugins = site.path("plugins");
    site.configure(&format!("plugin_path = {plugins:?}\n{config}"));
    fs::create_dir(&plugins).unwrap();
    let plugin = plugins.join("10-adjust");
    fs::write(&plugin, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(mode)).unwrap();
    let dockerd = FakeDockerd::start(&site, &daemon_json(&site, members));
    (site, dockerd, plugin)
}

/// Checks the line of `doctor`, `status` and `plugins`, and its end.
#[track_caller]
fn check(site: &Site, status: Status, why: &str, command: &str) {
    let findings = doctor(site, status);
    let line = format!("no plugin is called for containers: {why}");
    let found = findings.check("plugins-uncalled", "problem", &line);
    assert!(found.trim_end().ends_with(&format!("`{command}`")), "{found}");
    for command in ["status", "plugins"] {
        let output = site.run(nrictl(), &[command]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(found.trim_end()), "{command}: {text}");
        assert_eq!(output.status.code(), Some(0));
        let output = site.run(nrictl(), &[command, "--json"]);
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["uncalled"], found.trim_end());
    }
}

fn active() -> Vec<PluginStatus> {
    let (name, state) = ("10-adjust".to_owned(), "active".to_owned());
    vec![PluginStatus { name, state, launched: true, ..PluginStatus::default() }]
}

fn change(change: &str, why: &str) -> PluginChange {
    let (change, why) = (change.to_owned(), why.to_owned());
    PluginChange { name: "10-adjust".to_owned(), change, why, ..PluginChange::default() }
}

#[test]
fn a_plugin_that_is_called_needs_no_line() {
    let (site, _dockerd, _) = site("", "", 0o755);
    let findings = doctor(&site, Status { plugins: active(), ..healthy(&site) });
    assert!(findings.texts("plugins-uncalled").is_empty());
    // Shared plugins are launched for the first container.
    FakeNrid::start(&site, Status { plugin_dir: None, ..healthy(&site) });
    assert!(site.doctor().texts("plugins-uncalled").is_empty());
    // Without nrid, which the first container starts.
    fs::remove_file(site.path("s/control.sock")).unwrap();
    assert!(site.doctor().texts("plugins-uncalled").is_empty());
    // No plugin and no policy.
    fs::remove_dir_all(site.path("plugins")).unwrap();
    assert!(doctor(&site, healthy(&site)).texts("plugins-uncalled").is_empty());
}

#[test]
fn a_plugin_that_is_not_launched_is_named_with_the_remedy() {
    let (site, _dockerd, plugin) = site("", "", 0o644);
    let shown = plugin.display();
    let (why, remedy) =
        (format!("{shown} is not executable"), format!("chmod +x {shown} && nrictl reload"));
    check(&site, healthy(&site), &why, &remedy);
    let due = vec![change("launch", "file added after the start")];
    let why = "10-adjust is not launched: file added after the start";
    check(&site, Status { due, ..healthy(&site) }, why, "nrictl reload");
    let withheld = "it manages resources of the whole node, and containerd (process 7) launches \
                    it for its own containers; `nrictl install containerd --nri ours` ends that";
    let ignored = vec![change("withheld", withheld)];
    let why = "10-adjust is not launched: it manages resources of the whole node";
    let remedy = "nrictl install containerd --nri ours";
    check(&site, Status { ignored, ..healthy(&site) }, why, remedy);
    let mut plugins = active();
    plugins[0].state = "closed".to_owned();
    plugins[0].last_error = Some("the program exited with code 5".to_owned());
    let why = "10-adjust: the program exited with code 5";
    check(&site, Status { plugins, ..healthy(&site) }, why, "nrictl logs 10-adjust");
}

#[test]
fn policies_without_any_plugin_are_missed_plugins() {
    let (site, _dockerd, plugin) = site("[[plugin]]\nmatch = 'rules'\n", "", 0o755);
    fs::remove_file(plugin).unwrap();
    let why = "the configuration has a policy for \"rules\", and no plugin is installed";
    check(&site, healthy(&site), why, "nrictl plugin list");
}

#[test]
fn what_switches_all_plugins_off_is_named() {
    let (site, _dockerd, _) = site("disable = true\n", "", 0o755);
    let file = site.path("config.toml");
    let why = format!("disable = true in {}", file.display());
    let status = || Status { plugins: active(), ..healthy(&site) };
    check(&site, status(), &why, &format!("sed -i /^disable/d {}", file.display()));
}

/// Returns the findings of a site, without `nrid`, where the only engine is a dockerd with this
/// `daemon.json`. `None` if there are no namespaces here.
fn with_dockerd(site: &Site, daemon_json: &str) -> Option<Findings> {
    fs::write(site.path("daemon.json"), daemon_json).unwrap();
    let _ = fs::remove_file(site.path("ready"));
    site.write_etc("none", "");
    copy_program("/bin/sh", &site.path("dockerd"));
    // In a pid namespace, since the engines of other tests must not be found.
    let script = format!(
        "cd '{}' && {{ ./dockerd -c 'touch ready; sleep 1000; :' x --config-file daemon.json & }}; \
         until [ -e ready ]; do sleep 0.01; done; ",
        site.path("").display()
    );
    Some(site.doctor_by(site.with_etc_after(&script)?))
}

#[test]
fn containers_that_pass_through_to_an_engines_own_nri_miss_our_plugins() {
    let site = Site::new("");
    let plugins = site.path("plugins");
    fs::create_dir(&plugins).unwrap();
    fs::write(plugins.join("10-adjust"), "#!/bin/sh\n").unwrap();
    make_executable(&plugins.join("10-adjust"));
    let configure = |lines| site.configure(&format!("plugin_path = {plugins:?}\n{lines}"));
    let on = r#""nri-opts": {"enable": true, "plugin-path": "/nowhere"},"#;
    let engine = "[engines]\ndocker = 'engine'\n";
    let remedy = "`nrictl install docker --nri ours`";
    for (config, members, expected) in [
        (engine, on, Some("the NRI of dockerd (process ")),
        (engine, "", Some("[engines] leaves the containers of dockerd (process ")),
        // Ours adjusts them.
        ("", on, None),
        ("", "", None),
    ] {
        configure(config);
        let Some(findings) = with_dockerd(&site, &daemon_json(&site, members)) else { return };
        match expected {
            None => assert!(findings.texts("plugins-uncalled").is_empty(), "{members}"),
            Some(why) => {
                let line = format!("no plugin is called for containers: {why}");
                let found = findings.check("plugins-uncalled", "problem", &line);
                assert!(found.trim_end().ends_with(remedy), "{found}");
            }
        }
    }
    // No engine has the wrapper, so none of its containers could miss a plugin.
    configure("disable = true\n");
    let Some(findings) = with_dockerd(&site, &daemon_json(&site, "")) else { return };
    assert!(!findings.texts("plugins-uncalled").is_empty());
    let Some(findings) = with_dockerd(&site, "{}") else { return };
    assert!(findings.texts("plugins-uncalled").is_empty());
}
