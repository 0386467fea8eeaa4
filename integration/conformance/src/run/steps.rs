//! The steps of a case that do something; `check` and `events` beside it are those that look.

use super::{Running, Stop};
use crate::{
    case::{Request, Run, Step},
    driver::{Failure, Wanted},
    observe::{USUAL, within},
    plugin::{Containers, VARIABLE},
};
use nri_api::proto::{ContainerEviction, UpdateContainersRequest};
use std::time::Duration;

/// Length of one variable: the kernel limits it to 128 KiB.
const LONGEST: usize = 100_000;

/// Time limit of `UpdateContainers`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

impl Running<'_> {
    /// Performs a step.
    pub(super) fn step(&mut self, step: &Step) -> Result<(), Stop> {
        let driver = &self.runner.driver;
        match step {
            Step::Run(run) => self.run(run),
            Step::Update { container, memory, fails } => {
                expect(driver.update(&self.id(container)?, *memory), fails, "the update")
            }
            Step::Stop { container } => Ok(driver.stop(&self.id(container)?)?),
            Step::Remove { container } => {
                let id = self.id(container)?;
                driver.remove(&id)?;
                self.ids.remove(container);
                Ok(())
            }
            Step::Connect { plugin } => self.connect(plugin),
            Step::Refused { plugin } => match self.runner.sessions.open(self.script(plugin)?) {
                Ok(_) => Err(format!("the runtime accepted plugin {plugin}").into()),
                Err(_) => Ok(()),
            },
            Step::Disconnect { plugin } => {
                self.session(plugin)?.close();
                Ok(())
            }
            Step::Request(request) => self.request(request),
            Step::Check(check) => self.check(check),
            Step::Events(events) => self.events(events),
            Step::Received(received) => self.received(received),
            Step::Session { plugin, open } => {
                let session = self.session(plugin)?;
                let state = if *open { "closed" } else { "open" };
                Ok(within(USUAL, || match session.is_open() == *open {
                    true => Ok(()),
                    false => Err(format!("the session of plugin {plugin} is {state}")),
                })?)
            }
        }
    }

    fn run(&mut self, run: &Run) -> Result<(), Stop> {
        let Some(count) = run.count else { return self.run_one(run, &run.container, "") };
        for number in 0..count {
            let name = format!("{}-{number}", run.container);
            self.run_one(run, &name, &format!("{}-{}", self.prefix, run.container))?;
        }
        Ok(())
    }

    fn run_one(&mut self, run: &Run, name: &str, pod: &str) -> Result<(), Stop> {
        let mut env: Vec<String> = run.env.iter().map(|(k, v)| format!("{k}={v}")).collect();
        env.push(format!("{VARIABLE}={name}"));
        if run.padding > 0 {
            env.push(format!("PADDING={}", "x".repeat(run.padding.min(LONGEST))));
        }
        let wanted = Wanted {
            name: format!("{}-{name}", self.prefix),
            pod: pod.to_owned(),
            args: ["/bin/sleep", "1000"].map(str::to_owned).to_vec(),
            env,
            memory: run.memory,
        };
        let result = self.create_and_start(name, &wanted);
        if run.either {
            return match result {
                Err(Failure::Unsupported(text)) => Err(Stop::Unsupported(text)),
                _ => Ok(()),
            };
        }
        expect(result, &run.fails, &format!("container {name}"))
    }

    /// Creates and starts a container, and removes it if that fails.
    fn create_and_start(&mut self, name: &str, wanted: &Wanted) -> Result<(), Failure> {
        let driver = &self.runner.driver;
        let id = driver.create(wanted)?;
        let containers: &Containers = &self.runner.sessions.containers;
        containers.created(name, &id);
        match driver.start(&id) {
            Ok(()) => {
                self.ids.insert(name.to_owned(), id);
                Ok(())
            }
            Err(failure) => {
                // The failure of the start is what counts.
                driver.remove(&id).ok();
                Err(failure)
            }
        }
    }

    fn request(&self, request: &Request) -> Result<(), Stop> {
        let containers = &self.runner.sessions.containers;
        let mut message = UpdateContainersRequest::new();
        for update in &request.update {
            let update = crate::plugin::parse(&containers.with_ids(update));
            message.update.push(update.map_err(|error| error.to_string())?);
        }
        message.evict.extend(request.evict.iter().map(|name| ContainerEviction {
            container_id: containers.id(name),
            reason: "conformance".to_owned(),
            ..Default::default()
        }));
        let runtime = self.session(&request.plugin)?.runtime();
        let reply = runtime.update_containers(REQUEST_TIMEOUT, &message);
        let reply = self.runner.sessions.wait(reply);
        let reply = reply.map_err(|error| format!("UpdateContainers failed: {error}"))?;
        let name = |id: &String| containers.name(id).unwrap_or_else(|| id.clone());
        let mut failed: Vec<String> =
            reply.failed.iter().map(|update| name(&update.container_id)).collect();
        failed.sort();
        if failed != request.failed {
            let text = format!(
                "UpdateContainers: failed updates of {:?} expected, {failed:?} reported",
                request.failed
            );
            return Err(text.into());
        }
        Ok(())
    }
}

/// Text with which an engine reports that it cannot perform an adjustment (moby).
const UNSUPPORTED: &str = "unsupported container adjustment";

/// Compares the result of a call of the driver: success, or an error with these texts.
pub(super) fn expect(
    result: Result<(), Failure>,
    fails: &[String],
    what: &str,
) -> Result<(), Stop> {
    match result {
        Err(Failure::Refused(text)) if text.contains(UNSUPPORTED) => Err(Stop::Unsupported(text)),
        Ok(()) if fails.is_empty() => Ok(()),
        Ok(()) => Err(format!("{what}: an error expected, but it succeeded").into()),
        Err(Failure::Refused(text)) if !fails.is_empty() => {
            match fails.iter().find(|part| !text.contains(part.as_str())) {
                None => Ok(()),
                Some(part) => Err(format!("{what}: error without {part:?}: {text}").into()),
            }
        }
        Err(Failure::Refused(text)) => Err(format!("{what}: {text}").into()),
        Err(failure) => Err(failure.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_error_has_all_texts() {
        let texts = ["10-a".to_owned(), "20-b".to_owned()];
        let refused = |text: &str| Err(Failure::Refused(text.to_owned()));
        assert_eq!(expect(refused("10-a and 20-b"), &texts, "x"), Ok(()));
        assert!(matches!(expect(refused("10-a"), &texts, "x"), Err(Stop::Differs(_))));
        assert!(matches!(expect(Ok(()), &texts, "x"), Err(Stop::Differs(_))));
        assert!(matches!(expect(refused("no"), &[], "x"), Err(Stop::Differs(_))));
        let unsupported = refused("unsupported container adjustments: hooks");
        assert!(matches!(expect(unsupported, &[], "x"), Err(Stop::Unsupported(_))));
    }
}
