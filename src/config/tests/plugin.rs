//! Tests of `[[plugin]]`.

// The lints do not recognize helpers as test code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use nri_config::{
    Account, Budget, Config, FieldGroup, Limit, OutsideScope, PluginMode, PluginPolicy,
    PluginScope, Restart, User,
};

fn policy(text: &str) -> Result<PluginPolicy, String> {
    let text = format!("[[plugin]]\nmatch = 'a'\n{text}\n");
    Config::parse(&text).map(|c| c.plugin[0].clone()).map_err(|e| e.to_string())
}

/// Checks that the error begins with `expected`.
fn check(text: &str, expected: &str) {
    let error = policy(text).unwrap_err();
    assert!(error.starts_with(expected), "{text}: {error}");
}

#[test]
fn by_default_a_plugin_may_change_all_fields_and_is_restarted() {
    let plain = policy("").unwrap();
    assert_eq!((plain.restart, plain.restart_backoff), (Restart::Always, None));
    assert_eq!((plain.allow, plain.deny), (None, vec![]));
    assert_eq!((plain.user, plain.capabilities, plain.no_new_privs), (None, None, false));
    assert!(plain.rlimits.is_empty() && !plain.dry_run);
    assert_eq!((plain.wasm_memory, policy("wasm-memory = 64").unwrap().wasm_memory), (128, 64));
    assert!(policy("dry_run = true").unwrap().dry_run && policy("dry-run = true").unwrap().dry_run);
}

#[test]
fn restart_settings_are_parsed() {
    let policy = policy("restart = 'never'\nrestart-backoff = '250ms'").unwrap();
    assert_eq!(
        (policy.restart, policy.restart_backoff),
        (Restart::Never, Some(std::time::Duration::from_millis(250)))
    );
    check(
        "restart = 'sometimes'",
        "line 3, column 11: plugin.restart must be \"always\" or \"never\", not \"sometimes\"",
    );
}

#[test]
fn allowed_and_denied_field_groups_are_parsed() {
    let policy = policy("allow = ['mounts', 'resources.cpu']\ndeny = ['hooks']").unwrap();
    let names = |groups: Vec<FieldGroup>| groups.iter().map(|g| g.name()).collect::<Vec<_>>();
    assert_eq!(names(policy.allow.unwrap()), ["mounts", "resources.cpu"]);
    assert_eq!(names(policy.deny), ["hooks"]);
    check(
        "allow = ['mounts',\n 'mount']",
        "line 4, column 2: \"mount\" is not a field group; known names: annotations, args, ",
    );
    check("deny = 'hooks'", "line 3, column 8: plugin.deny must be a list, not \"hooks\"");
}

/// A mistake must not launch any file, so that it is no value that a start replaces.
#[test]
fn a_digest_is_parsed_or_refused() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let parsed = policy(&format!("digest = '{digest}'")).unwrap().digest;
    assert_eq!((parsed.unwrap().to_string(), policy("").unwrap().digest), (digest, None));
    for wrong in ["", "0a", "sha256:0a", &"0a".repeat(32), &format!("sha256:{}", "0A".repeat(32))] {
        let text = format!("digest = '{wrong}'");
        check(&text, &format!("line 3, column 10: {wrong:?} is not a digest: sha256: and 64 hex"));
        let file = format!("[[plugin]]\nmatch = 'a'\n{text}\n");
        assert!(Config::parse_with_mistakes(&file).is_err(), "{wrong}");
    }
    let for_all = format!("[[plugin]]\nmatch = '*'\ndigest = 'sha256:{}'\n", "0a".repeat(32));
    let error = Config::parse_with_mistakes(&for_all).unwrap_err().to_string();
    assert_eq!(
        error,
        "line 3, column 10: digest is that of one plugin: `match` must name it, and is \"*\""
    );
}

#[test]
fn mode_and_scope_are_parsed() {
    let default = policy("").unwrap();
    assert_eq!((default.mode, default.scope), (PluginMode::Apply, None));
    let scoped = policy(
        "mode = 'observe'\noutside-scope = 'read_only'\n\
         scope = { namespaces = ['a', 'b*'], images = [], labels = { 'example.com/tier' = 'x' } }",
    )
    .unwrap();
    assert_eq!((scoped.mode, scoped.outside_scope), (PluginMode::Observe, OutsideScope::ReadOnly));
    assert!(scoped.is_limited_by_labels());
    let texts = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
    let expected = PluginScope {
        namespaces: texts(&["a", "b*"]),
        images: texts(&[]),
        labels: [("example.com/tier".to_owned(), "x".to_owned())].into(),
        ..PluginScope::default()
    };
    assert_eq!(scoped.scope, Some(expected));
    // As a table of its own.
    let table = policy("[plugin.scope]\nengines = ['docker']").unwrap().scope.unwrap();
    assert_eq!(table.engines, texts(&["docker"]));
    check("scope = { engine = ['docker'] }", "line 3, column 11: unknown key `engine`");
    check("scope.engines = 'docker'", "line 3, column 17: ");
    check("mode = 'shadow'", "line 3, column 8: plugin.mode must be \"apply\" or \"observe\"");
}

#[test]
fn users_that_may_connect_as_a_plugin_are_parsed() {
    assert_eq!(policy("").unwrap().uids, [0; 0]);
    assert_eq!(policy("uids = [1000, 7]").unwrap().uids, [1000, 7]);
}

#[test]
fn the_user_of_a_plugin_is_parsed() {
    let user = |text: &str| policy(&format!("user = {text:?}")).map(|p| p.user.unwrap());
    let (id, name) = (Account::Id, |n: &str| Account::Name(n.to_owned()));
    for (text, expected) in [
        ("nobody", (name("nobody"), None)),
        ("65534", (id(65534), None)),
        ("1:2", (id(1), Some(id(2)))),
        ("nobody:nogroup", (name("nobody"), Some(name("nogroup")))),
    ] {
        assert_eq!(user(text), Ok(User { user: expected.0, group: expected.1 }), "{text}");
    }
    for text in ["", ":", "1:", ":1", "a b", "1:2:3", "-x", "4294967295", "99999999999"] {
        check(
            &format!("user = {text:?}"),
            &format!("line 3, column 8: {text:?} is not a user, such as "),
        );
    }
}

#[test]
fn the_capabilities_of_a_plugin_are_parsed() {
    let parsed =
        policy("capabilities = ['CAP_NET_ADMIN', 'sys_nice']\nno-new-privs = true").unwrap();
    let names: Vec<_> = parsed.capabilities.unwrap().iter().map(|c| c.name()).collect();
    assert_eq!(names, ["net_admin", "sys_nice"]);
    assert!(parsed.no_new_privs);
    assert_eq!(policy("capabilities = []").unwrap().capabilities, Some(vec![]));
    check(
        "capabilities = ['ALL']",
        "line 3, column 17: \"ALL\" is not a capability; known names: chown, ",
    );
}

#[test]
fn the_resource_limits_of_a_plugin_are_parsed() {
    let limits = policy("rlimits = { nofile = 1024, RLIMIT_CORE = 0, memlock = 'unlimited' }")
        .unwrap()
        .rlimits;
    let limits: Vec<_> = limits.iter().map(|(name, limit)| (name.name(), *limit)).collect();
    assert_eq!(
        limits,
        [("core", Limit::Value(0)), ("memlock", Limit::Unlimited), ("nofile", Limit::Value(1024))]
    );
    check(
        "rlimits = { files = 1 }",
        "line 3, column 13: \"files\" is not a resource limit; known names: as, core, ",
    );
    check(
        "rlimits = { nofile = -1 }",
        "line 3, column 22: plugin.rlimits.nofile must be a number that is not negative, a size ",
    );
    check(
        "rlimits = { nofile = 'many' }",
        "line 3, column 22: plugin.rlimits.nofile must be a number that is not negative, a size ",
    );
}

#[test]
fn the_budget_of_a_plugin_is_parsed() {
    let budget = |text: &str| policy(&format!("budget = {text}")).map(|p| p.budget.unwrap());
    let of = |time, share, pause| Budget {
        time: std::time::Duration::from_millis(time),
        share,
        pause: std::time::Duration::from_millis(pause),
    };
    assert_eq!(policy("").unwrap().budget, None);
    assert_eq!(budget("{ time = '200ms' }"), Ok(of(200, 50, 30_000)));
    for share in ["'7%'", "'7 %'", "7"] {
        let text = format!("{{ time = 1, share = {share}, pause = '5s' }}");
        assert_eq!(budget(&text), Ok(of(1000, 7, 5000)), "{share}");
    }
    for share in ["'100%'", "'7'", "''", "'-1%'", "100", "-1", "true"] {
        check(
            &format!("budget = {{ time = 1, share = {share} }}"),
            "line 3, column 30: plugin.budget.share must be a percentage below 100, such as ",
        );
    }
    check("budget = { share = 10 }", "line 3, column 10: the key `time` is missing");
    check("budget = '1s'", "line 3, column 10: plugin.budget must be ");
    check("budget = { tim = 1 }", "line 3, column 12: unknown key `tim` in [plugin.budget]");
}
