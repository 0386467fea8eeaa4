//! Rights that a container gets by other calls than `run`: `create` and `start`, `restart`, and a
//! start after rules have changed.

use super::*;

test_both! {
    calls_after_the_creation_give_no_more_rights,
    a_container_from_before_the_recipe_does_not_start_again,
}

const UNCONFINED: &str = "--security-opt=seccomp=unconfined";

fn calls_after_the_creation_give_no_more_rights<E: Engine>() {
    with_recipe::<E>("privileged", |engine, name| {
        let mut tried = Tried::new(name, "privileged");
        let rights = [
            ("SYS_ADMIN", "--cap-add=SYS_ADMIN"),
            ("processes of the host", "--pid=host"),
            ("no filter", UNCONFINED),
            ("all block devices", "--device-cgroup-rule=b *:* rwm"),
        ];
        for (n, (what, option)) in rights.into_iter().enumerate() {
            for verb in ["start", "restart"] {
                // `create` calls no runtime.
                tried.refused(engine, &format!("{what}, by {verb}"), "50-rules", |runtime| {
                    let container = format!("{verb}-{runtime}-{n}");
                    let options = ["--network=none", "--name", &container, option, IMAGE, "true"];
                    call_with(engine, runtime, "create", &options).success();
                    engine.call_client(&[verb, &container])
                });
            }
        }
        // `run_with` has a network of its own.
        tried.refused(engine, "network of the host", "50-rules", |runtime| {
            call_with(engine, runtime, "run", &["--rm", "--network=host", IMAGE, "true"])
        });
        // The environment of the wrapper is that of the engine.
        tried.refused(engine, "variables of the wrapper", "50-rules", |runtime| {
            let variables = ["--env=NRI_CONTAINER_RUNTIME_CONFIG=/dev/null", "--env=PATH=/bin"];
            let options = [&variables[..], &["--cap-add=SYS_ADMIN", IMAGE, "true"]].concat();
            engine.run_with(runtime, &options)
        });
        tried.report();
    });
}

fn a_container_from_before_the_recipe_does_not_start_again<E: Engine>() {
    let harmless = |_: &E, _: String| HARMLESS.to_owned();
    with_edited_recipe::<E>("privileged", harmless, |engine, name| {
        let mut tried = Tried::new(name, "privileged");
        let more = "--cap-add=SYS_ADMIN";
        for (container, option) in
            [("restarted", more), ("started", more), ("plain", "--cap-drop=ALL")]
        {
            let process = run(engine, container, &[option]);
            assert_eq!(process.env("HARMLESS").as_deref(), Some("yes"));
        }
        replace_rules(engine, &recipe("privileged"));
        engine.out(&["stop", "started"]);
        for (container, verb) in [("restarted", "restart"), ("started", "start")] {
            let ended = engine.call_client(&[verb, container]);
            let said = said(&ended);
            let is_refused = ended.code != Some(0) && said.contains("50-rules");
            let runs = engine.inspect(container)["State"]["Running"] == true;
            tried.held(&format!("{verb} of an older container"), is_refused && !runs, &said);
        }
        engine.out(&["restart", "plain"]);
        tried.report();
    });
}
