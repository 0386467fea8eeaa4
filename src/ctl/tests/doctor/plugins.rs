//! Findings about plugins, from the status of `nrid`.

use crate::{
    fake_nrid::{FakeNrid, Sleeper, doctor, healthy},
    site::{FakeDockerd, Site, nrictl},
};
use nri_control::{
    MissedContainers, PluginBudget, PluginChange, PluginFailurePolicy, PluginLimit, PluginStatus,
    RequestedByPlugin, Status,
};
use nri_files::OsText;

fn plugin(name: &str, launched: bool, state: &str, error: &str) -> PluginStatus {
    PluginStatus {
        name: name.to_owned(),
        launched,
        state: state.to_owned(),
        last_error: Some(error.to_owned()).filter(|error| !error.is_empty()),
        ..PluginStatus::default()
    }
}

fn change(name: &str, change: &str, why: &str) -> PluginChange {
    let (change, why) = (change.to_owned(), why.to_owned());
    PluginChange { name: name.to_owned(), change, why, ..PluginChange::default() }
}

#[test]
fn a_session_is_a_problem_only_if_a_launched_plugin_is_not_active() {
    let site = Site::new("");
    let plugins = vec![
        plugin("10-a", true, "active", ""),
        plugin("11-b", false, "active", "no reply within 2s"),
        plugin("12-c", true, "synchronizing", ""),
        plugin("", false, "connecting", ""),
        plugin("13-d", false, "closed", "closed by the peer"),
        plugin("", false, "closed", "user 65534 may not connect"),
    ];
    let findings = doctor(&site, Status { plugins: plugins.clone(), ..healthy(&site) });
    findings.check("plugin-active", "ok", "10-a: active");
    findings.check("plugin-failed", "warning", "11-b: active, but a call has failed (no reply");
    findings.check("plugin-starting", "info", "12-c: synchronizing");
    findings.check("plugin-starting", "info", "(not registered yet): connecting");
    findings.check("plugin-left", "info", "13-d: has left (closed by the peer)");
    findings.check("plugin-refused", "warning", "(user 65534 may not connect)");
    assert!(findings.texts("plugin-not-active").is_empty());

    let mut plugins = plugins;
    let ended = plugin("14-e", true, "restarting", "exit status 1");
    plugins.push(PluginStatus { last_output: Some("no room".to_owned()), ..ended });
    let findings = doctor(&site, Status { plugins, ..healthy(&site) });
    let why = "14-e: restarting (exit status 1); last output: no room";
    findings.check("plugin-not-active", "problem", why);
}

#[test]
fn a_plugin_that_exceeds_its_budget_is_a_warning() {
    let site = Site::new("");
    let limit = Some(PluginLimit { since: 7, skipped: 3, next_try: 8 });
    let budget = PluginBudget { time_ms: 200, share: 50, limit, ..PluginBudget::default() };
    let exempt = PluginBudget { exemption: Some("it is required".to_owned()), ..budget.clone() };
    let exempt = PluginBudget { limit: None, ..exempt };
    let plugins = vec![
        PluginStatus { budget: Some(budget), ..plugin("10-slow", true, "active", "") },
        PluginStatus { budget: Some(exempt), ..plugin("20-judge", true, "active", "") },
    ];
    let findings = doctor(&site, Status { plugins, ..healthy(&site) });
    findings.check("plugin-limited", "warning", "10-slow: limited by its budget for ");
    findings.check("plugin-active", "ok", "20-judge: active");
}

#[test]
fn what_a_reload_would_do_with_each_file_is_reported_once() {
    let site = Site::new("");
    let status = Status {
        plugins: vec![
            plugin("10-runs", true, "active", ""),
            plugin("11-bad", true, "closed", "writable by everybody"),
            plugin("12-ended", true, "closed", "exit status 1"),
            plugin("16-topology", true, "closed", "containerd launches it; `end it`"),
        ],
        due: vec![
            change("10-runs", "unusable", "writable by everybody"),
            change("11-bad", "unusable", "/p/11-bad: writable by everybody"),
            change("12-ended", "launch", "the plugin has ended"),
            change("13-new", "launch", "file added after the start"),
            change("14-gone", "end", "file removed"),
        ],
        missed: vec![MissedContainers { plugin: "17-late".to_owned(), containers: 2 }],
        ignored: vec![
            change("15-off", "ignored", "not executable"),
            change("16-topology", "withheld", "containerd launches it; `end it`"),
        ],
        plugin_dir_error: Some("it hangs".to_owned()),
        ..healthy(&site)
    };
    let findings = doctor(&site, status);
    let why = "writable by everybody";
    findings.check(
        "plugin-runs-unusable",
        "problem",
        &format!("runs, but its file is refused: {why}"),
    );
    let unusable = findings.check("plugin-unusable", "problem", "11-bad: not launched: /p/11-bad");
    assert_eq!(unusable.matches(why).count(), 1, "{unusable}");
    let ended = "12-ended: not active: the plugin has ended (exit status 1)";
    findings.check("plugin-not-active", "problem", ended);
    assert_eq!(findings.texts("plugin-not-active").len(), 1);
    findings.check("plugin-reload-due", "warning", "13-new: not launched: file added after");
    findings.check("plugin-reload-due", "warning", "14-gone: does not run any more: file removed");
    findings.check("plugin-ignored", "info", "15-off: not launched: not executable");
    let withheld = "16-topology: not launched: containerd launches it; `end it`";
    let missed = "17-late: 2 containers were created without it";
    findings.check("plugin-missed", "warning", missed);
    findings.check("plugin-withheld", "warning", withheld);
    findings.check("plugin-directory-unreadable", "problem", "it hangs");
}

#[test]
fn what_a_plugin_says_of_its_configuration_and_a_file_that_none_reads_are_warnings() {
    let site = Site::new("");
    let dir = site.path("conf.d");
    std::fs::create_dir(&dir).unwrap();
    let file = |name: &str| {
        let file = dir.join(name);
        std::fs::write(&file, "").unwrap();
        Some(OsText::from(file.as_path()))
    };
    let rules = PluginStatus {
        config: file("50-rules.conf"),
        warnings: vec!["rule \"a\" refuses containers".to_owned()],
        ..plugin("50-rules", true, "active", "")
    };
    let logger =
        PluginStatus { config: file("logger.conf"), ..plugin("10-logger", true, "active", "") };
    let own =
        PluginStatus { config: file("20-logger.conf"), ..plugin("20-logger", true, "active", "") };
    let plugins = vec![rules, logger, own];
    let findings = doctor(&site, Status { plugins: plugins.clone(), ..healthy(&site) });
    findings.check("plugin-warning", "warning", "50-rules: rule \"a\" refuses containers");
    assert!(findings.texts("plugin-configuration-hidden").is_empty());
    file("rules.conf");
    let findings = doctor(&site, Status { plugins, ..healthy(&site) });
    let hidden = "rules.conf has no effect: plugin 50-rules reads ";
    findings.check("plugin-configuration-hidden", "warning", hidden);
    assert_eq!(findings.texts("plugin-configuration-hidden").len(), 1);
}

#[test]
fn a_plugin_that_refuses_containers_and_is_not_required_is_a_warning() {
    let asks = |name: &str| {
        let requested = RequestedByPlugin { fail_request: true, keep_connected: false };
        let failure_policy =
            PluginFailurePolicy { requested: Some(requested), ..PluginFailurePolicy::default() };
        let failure_policy = Some(failure_policy);
        PluginStatus { failure_policy, ..plugin(name, false, "active", "") }
    };
    let subscribed = |name: &str, number: usize| {
        let mut events = vec!["RUN_POD_SANDBOX".to_owned(); number - 1];
        events.push("VALIDATE_CONTAINER_ADJUSTMENT".to_owned());
        PluginStatus { events, ..plugin(name, true, "active", "") }
    };
    let plugins = vec![
        asks("10-rules"),
        subscribed("20-checks", 2),
        subscribed("30-logger", 14),
        asks("40-required"),
        subscribed("50-named", 1),
        asks("60-rule"),
    ];
    let site = Site::new(
        "[[plugin]]\nmatch = 'required'\nrequired = true\n\
         [[plugin]]\nmatch = '*'\nrequired = true\n\
         [default_validator]\nenable = true\nrequired_plugins = ['50-named', 'rule']\n",
    );
    let findings = doctor(&site, Status { plugins: plugins.clone(), ..healthy(&site) });
    let without = "is not required: while it is not connected, containers are created without it";
    let asking = format!("10-rules: asks that requests fail without it, and {without}");
    findings.check("plugin-not-required", "warning", &asking);
    let validating = format!("20-checks: validates containers, and {without}");
    findings.check("plugin-not-required", "warning", &validating);
    assert_eq!(findings.texts("plugin-not-required").len(), 2);
    let shadow = Status { mode: "shadow".to_owned(), plugins, ..healthy(&site) };
    assert!(doctor(&site, shadow).texts("plugin-not-required").is_empty());
}

#[test]
fn a_second_session_that_was_refused_is_a_warning_that_names_both_processes() {
    let site = Site::new("");
    let why = "refused: process 1001 has registered as 10-a already, and process 1002 may not \
               replace it: it is of another user";
    let refused =
        PluginStatus { replacement_refused: true, ..plugin("10-a", false, "closed", why) };
    // While a newer session replaces an older one, both are listed.
    let of = |pid| PluginStatus { pid: Some(pid), ..plugin("10-b", false, "active", "") };
    let active = plugin("10-a", false, "active", "");
    let plugins = vec![active, refused, of(1003), of(1004)];
    let findings = doctor(&site, Status { plugins, ..healthy(&site) });
    findings.check("plugin-twice", "warning", &format!("10-a: {why}"));
    assert_eq!(findings.texts("plugin-twice").len(), 1);
    assert!(findings.texts("plugin-left").is_empty());
}

#[test]
fn a_missing_required_plugin_is_a_problem_and_an_unmatched_policy_is_not() {
    let config = "[[plugin]]\nmatch = '10-must'\nrequired = true\n\
                  [[plugin]]\nmatch = 'misspelled'\ndeny = ['env']\n";
    let site = Site::new(config);
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let status = Status {
        idle_policies: names(&["10-must", "misspelled"]),
        missing_required: names(&["10-must"]),
        ..healthy(&site)
    };
    let findings = doctor(&site, status.clone());
    findings.check("plugin-required-missing", "problem", "\"10-must\" is required and not active");
    findings.check("policy-unmatched", "info", "\"misspelled\": there is no such plugin");
    assert_eq!(findings.texts("policy-unmatched").len(), 1);
    // Nothing is refused in shadow mode.
    let findings = doctor(&site, Status { mode: "shadow".to_owned(), ..status });
    assert!(findings.texts("plugin-required-missing").is_empty());
    // Without nrid, an external plugin cannot be connected.
    std::fs::remove_file(site.path("s/control.sock")).unwrap();
    let text = "creations are refused until such a plugin is active";
    site.doctor().check("policy-unmatched", "info", text);
}

#[test]
fn a_plugin_that_has_refused_its_configuration_runs_with_the_previous_one() {
    let site = Site::new("");
    let due = vec![change("10-a", "refused", "cannot be configured: line 1: mistake")];
    let plugins = vec![plugin("10-a", true, "active", "")];
    let status = Status { plugins, due, ..healthy(&site) };
    FakeNrid::start(&site, status);
    let text = "10-a: runs with its previous configuration, it refused the current one: cannot be \
                configured: line 1: mistake";
    let found = site.doctor().check("plugin-configuration-refused", "problem", text);
    assert!(found.contains("Correct its .conf, then `nrictl reload`"), "{found}");
    let output = String::from_utf8(site.run(nrictl(), &["status"]).stdout).unwrap();
    let line = output.lines().find(|line| line.contains("previous configuration")).unwrap();
    assert!(line.ends_with("mistake; correct its .conf, then nrictl reload"), "{line}");
}

#[test]
fn plugins_with_all_capabilities_are_a_warning() {
    let permitted = rustix::thread::capabilities(None).unwrap().permitted;
    if permitted.is_empty() {
        return println!("skipped: this process has no capabilities");
    }
    let site = Site::new("");
    let child = Sleeper::start();
    let of_child = PluginStatus { pid: Some(child.pid()), ..plugin("10-a", true, "active", "") };
    let findings = doctor(&site, Status { plugins: vec![of_child], ..healthy(&site) });
    let text = "10-a: launched with all capabilities of nrid";
    let found = findings.check("plugin-unlimited", "warning", text);
    let values = "`capabilities = []` and `no_new_privs = true` to its [[plugin]] in /";
    assert!(found.contains(values), "{found}");
}

#[test]
fn the_process_that_launches_plugins_is_named() {
    let dir = |site: &Site| site.path("plugins");
    let site = Site::new("");
    site.configure(&format!("plugin_path = {:?}\n", dir(&site)));
    site.doctor().check("plugins-launched-by-nrid", "ok", &dir(&site).to_string_lossy());
    let own_nri =
        |dir: &str| format!(r#"{{"nri-opts": {{"enable": true, "plugin-path": {dir:?}}}}}"#);
    let dockerd = FakeDockerd::start(&site, &own_nri(&dir(&site).to_string_lossy()));
    let plugin_dir = Some(OsText::from(dir(&site).as_os_str()));
    let findings = doctor(&site, Status { plugin_dir, ..healthy(&site) });
    let text = format!("launched by nrid and by dockerd {}", dockerd.shown());
    findings.check("plugins-launched-by-both", "info", &text);
    drop(dockerd);
    let site = Site::new("");
    let dockerd = FakeDockerd::start(&site, &own_nri(nri_locate::PLUGIN_DIR));
    // Without nrid, and with one that has adjusted no container.
    let text = format!(
        "launched by dockerd {} for its own containers; nrid launches them, too",
        dockerd.shown()
    );
    site.doctor().check("plugins-launched-later", "info", &text);
    let deferred = Status { plugin_dir: None, ..healthy(&site) };
    doctor(&site, deferred).check("plugins-launched-later", "info", &text);
}
