//! An NRI plugin that sets environment variables and a limit of processes.
//!
//! Its configuration is YAML:
//!
//! ```yaml
//! env:
//!   HELLO: from a plugin
//! pids: 100
//! ```

use nri_plugin::{Configured, prelude::*};
use std::collections::BTreeMap;

/// The configuration. Without one, the plugin changes nothing.
#[derive(Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rules {
    env: BTreeMap<String, String>,
    pids: Option<i64>,
}

#[derive(Default)]
struct Template {
    rules: Configured<Rules>,
}

impl Plugin for Template {
    async fn configure(&self, _: &Session, text: &str) -> Reply<()> {
        Ok(self.rules.read_yaml(text)?)
    }

    async fn create_container(
        &self,
        _: &Session,
        _: PodSandbox,
        _: Container,
    ) -> Reply<Creation> {
        let rules = self.rules.get();
        let mut adjustment = Adjustment::new();
        for (name, value) in &rules.env {
            adjustment.add_env(name, value);
        }
        if let Some(limit) = rules.pids {
            adjustment.set_pids_limit(limit);
        }
        Ok(adjustment.into())
    }
}

fn main() -> std::process::ExitCode {
    nri_plugin::run(Template::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_plugin::testing::{InProcessRuntime, container, env, pod};

    #[test]
    fn a_container_gets_what_the_configuration_says() {
        let text = "env: {HELLO: world}\npids: 100\n";
        let runtime = InProcessRuntime::start(Template::default(), text).unwrap();
        let pod = pod("shop");
        let reply = runtime.create_container(&pod, &container(&pod, "web")).unwrap();
        assert_eq!(env(&reply, "HELLO"), Some("world"));
        assert_eq!(reply.adjust.linux.resources.pids.limit, 100);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let refused = InProcessRuntime::start(Template::default(), "colour: red").err().unwrap();
        assert!(refused.to_string().contains("colour"), "{refused}");
    }
}
