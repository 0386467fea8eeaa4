//! Handles a verb with an event: sends a request to `nrid`, then calls the real runtime with the
//! substitutes of the reply. For `run` and `restore`, and for a `start` or `delete` whose process
//! `nrid` follows, this process becomes the runtime. Otherwise the runtime is a child, and its exit
//! is reported to `nrid`, which then replies a second time.
//!
//! If `nrid` cannot reply, only this module decides whether the verb proceeds, by the properties of
//! [`Verb`] and the key `unreachable`.

use super::{
    begin::{self, OpenBundle},
    resources::{self, RequestedResources},
    timeouts,
};
use crate::{
    args::replaced::{bytes, with_value},
    error::Error,
    invocation::Invocation,
    runtime::{Target, die_by, memory, spawn_and_wait},
};
use nri_args::{
    verb_args::{self, Subject, VerbArgs},
    verbs::Verb,
};
use nri_control::{
    Client, ClientError, Exit, Finished, FrameError, Launcher, Reply, Request, Substitute,
};
use nri_files::{OsText, RECORDS_DIR};
use nri_locate::{NRID, find_own_program, working_dir};
use std::{
    ffi::OsStr,
    io::ErrorKind,
    os::{
        fd::{AsFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

/// A verb that carries an event.
struct Event<'a> {
    invocation: Invocation<'a>,
    verb: Verb,
}

/// Decision of `nrid` on a verb.
enum Decision {
    /// Run the verb with these substitutes, and report the exit of the runtime on this connection.
    Proceed(Substitute, Client),
    /// Run the verb as it was called.
    Bypass,
}

/// Handles the verb and returns the exit code. `problem` is the reason why the configuration cannot
/// be used, `target` the call of the real runtime without substitutes.
pub(crate) fn handle(
    invocation: Invocation<'_>,
    verb: Verb,
    problem: Option<Error>,
    mut target: Target,
) -> Result<i32, Error> {
    let call = invocation.call;
    let rest = bytes(&invocation.command_line.rest);
    let args = verb_args::read(verb, &rest);
    let id = match args.subject(verb) {
        Subject::Container(id) => id,
        Subject::None => return Err(target.exec(call)),
        Subject::Unacceptable(id, why) => {
            return Err(Error::Id { id: OsStr::from_bytes(id).to_owned(), why });
        }
    };
    // Without a usable configuration, neither nrid's location nor the key `unreachable` is known.
    match problem {
        Some(problem) if verb.needs_nrid() => return Err(problem),
        Some(_) => return Err(target.exec(call)),
        None => {}
    }
    let mut bundle = None;
    if verb.has_bundle() {
        bundle = OpenBundle::open(&args)?;
        // Without a bundle no container is created, so there is no event. The real runtime reports
        // the missing bundle.
        if bundle.is_none() {
            return Err(target.exec(call));
        }
    }
    let event = Event { invocation, verb };
    match event.request(id, &args, &mut target, bundle)? {
        Decision::Bypass => Err(target.exec(call)),
        Decision::Proceed(substitute, mut client) => {
            let becomes_runtime = verb.execs() || substitute.exec;
            event.substitute(substitute, &mut target)?;
            if becomes_runtime {
                return Err(target.exec(call));
            }
            event.run_and_report(&target, &args, &mut client)
        }
    }
}

impl Event<'_> {
    /// Requests the decision of `nrid`.
    fn request(
        &self,
        id: &str,
        args: &VerbArgs<'_>,
        target: &mut Target,
        bundle: Option<OpenBundle>,
    ) -> Result<Decision, Error> {
        let bundle = bundle.as_ref();
        let Some(mut client) = self.connect()? else { return Ok(Decision::Bypass) };
        let resources = self.resources(args, target)?;
        let request = begin::message(
            &self.invocation,
            self.verb,
            id,
            args,
            &target.runtime,
            bundle,
            resources,
        )
        .map_err(ClientError::from)?;
        let mut reply = self.begin(&mut client, &request, bundle);
        if matches!(reply, Err(ClientError::Frame(FrameError::Closed))) {
            // An nrid that exits closes connections without a reply, and the next nrid undoes the
            // requests that were in progress. The request is therefore sent again, but only once: a
            // second close has another cause. A killed nrid may accept connections until its
            // process has exited, so `wait_exited` waits for the exit first.
            client.wait_exited();
            let Some(next) = self.connect()? else { return Ok(Decision::Bypass) };
            client = next;
            reply = self.begin(&mut client, &request, bundle);
        }
        match reply {
            Ok(Reply::Proceed(substitute)) => Ok(Decision::Proceed(substitute, client)),
            Ok(Reply::Bypass) => Ok(Decision::Bypass),
            Ok(Reply::Refused { message }) if self.verb.ignores_refusal() => {
                self.invocation.log.warning(&message);
                Ok(Decision::Bypass)
            }
            Ok(Reply::Refused { message }) => Err(Error::Refused(message)),
            Ok(_) => self.without_nrid(Error::Reply).map(|()| Decision::Bypass),
            Err(e) => self.without_nrid(e.into()).map(|()| Decision::Bypass),
        }
    }

    fn begin(
        &self,
        client: &mut Client,
        request: &[u8],
        bundle: Option<&OpenBundle>,
    ) -> Result<Reply, ClientError> {
        let settings = self.invocation.settings;
        let fds: Vec<_> = bundle.iter().map(|b| b.fd.as_fd()).collect();
        let silence = timeouts::silence(self.verb, settings);
        client.set_timeouts(timeouts::begin(self.verb, settings), silence)?;
        client.first_call(request, &fds)
    }

    /// Connects to `nrid`, and starts it if the verb needs it. Returns `None` if the verb proceeds
    /// without `nrid`.
    fn connect(&self) -> Result<Option<Client>, Error> {
        let Invocation { call, config, settings, .. } = self.invocation;
        let mut launcher = Launcher {
            program: None,
            state_dir: settings.state_dir.clone(),
            config: config.map(Path::to_owned),
            timeout: settings.start_timeout,
        };
        // Without nrid, an update would overwrite the resources that plugins have set.
        let would_overwrite = self.verb == Verb::Update && has_records(&launcher.state_dir);
        if self.verb.needs_nrid() || would_overwrite {
            launcher.program = find_own_program(NRID, &call.environment);
            return match launcher.connect_or_start() {
                Ok(client) => Ok(Some(client)),
                Err(e) => self.without_nrid(e.into()).map(|()| None),
            };
        }
        match launcher.connect() {
            Ok(client) => Ok(Some(client)),
            // While no nrid runs, no record has to be updated. The next nrid detects deletions.
            Err(ClientError::Connect(e))
                if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(e) => self.without_nrid(e.into()).map(|()| None),
        }
    }

    /// Logs that the verb proceeds without `nrid`.
    ///
    /// # Errors
    /// `why`, if the verb must not proceed without `nrid`.
    fn without_nrid(&self, why: Error) -> Result<(), Error> {
        let Invocation { settings, log, .. } = self.invocation;
        if depends_on_reply(self.verb, &why) && !settings.passes_unreachable {
            return Err(why);
        }
        log.warning(&format!("continuing without NRI: {why}"));
        Ok(())
    }

    /// Returns the requested resources as text. If their file can be read only once, `target` gets
    /// a copy.
    fn resources(&self, args: &VerbArgs<'_>, target: &mut Target) -> Result<Option<String>, Error> {
        let Some(flag) = args.resources.as_ref().filter(|_| self.verb == Verb::Update) else {
            return Ok(None);
        };
        let Some(RequestedResources { content, is_spent }) = resources::read(flag)? else {
            return Ok(None);
        };
        if is_spent {
            let command_line = self.invocation.command_line;
            target.stdin = Some(resources_file(&content)?);
            target.set_rest(command_line, with_value(&command_line.rest, flag.at, b"-"));
        }
        // Text that is not UTF-8 is not JSON; the real runtime reports that.
        Ok(String::from_utf8(content).ok())
    }

    /// Replaces arguments and stdin of the real runtime as `nrid` replied.
    fn substitute(&self, substitute: Substitute, target: &mut Target) -> Result<(), Error> {
        if let Some(arguments) = substitute.arguments {
            let rest = arguments.into_iter().map(|OsText(argument)| argument).collect();
            target.set_rest(self.invocation.command_line, rest);
        }
        if let Some(text) = substitute.stdin {
            target.stdin = Some(resources_file(text.as_bytes())?);
        }
        Ok(())
    }

    /// Runs the real runtime, reports its exit to `nrid`, and returns the exit code.
    fn run_and_report(
        &self,
        target: &Target,
        args: &VerbArgs<'_>,
        client: &mut Client,
    ) -> Result<i32, Error> {
        let Invocation { call, settings, log, .. } = self.invocation;
        let log_size = log.size();
        let (exit, failed) = match spawn_and_wait(target, call) {
            Ok(exit) => (exit, None),
            Err(e) => (Exit::NotStarted, Some(e)),
        };
        let pid_file = args.pid_file.filter(|_| self.verb == Verb::Create && exit.success());
        let pid = pid_file.and_then(|file| read_pid(OsStr::from_bytes(file), args));
        let error = match exit {
            Exit::Code(code) if code != 0 => log.error_of_runtime(log_size),
            _ => None,
        };
        let finished = Finished { exit, pid, error: error.clone() };
        let silence = timeouts::silence_after(settings);
        let reply = client
            .set_timeouts(timeouts::finish(settings), silence)
            .and_then(|()| client.call(&Request::Finished(finished), &[]));
        if let Some(e) = failed {
            return Err(e);
        }
        match reply {
            Ok(Reply::Refused { message }) if exit.success() && !self.verb.ignores_refusal() => {
                return Err(Error::Refused(message));
            }
            // The message names the plugins and fields at which the real runtime may have failed.
            Ok(Reply::Refused { message }) if !exit.success() => {
                log.add_to_error(error.as_deref(), &message);
            }
            Ok(_) => {}
            // The real runtime has performed the verb, so its exit code is returned.
            Err(e) => log.warning(&format!("{e}; the real runtime has performed the verb")),
        }
        Ok(match exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => {
                die_by(signal);
                128 + signal
            }
            Exit::NotStarted => 1,
        })
    }
}

/// Whether a verb must not proceed without the reply of `nrid`. An `update` proceeds where no
/// `nrid` decides about it; one that is alive and does not reply in time has not permitted it, and
/// may be about to refuse it.
fn depends_on_reply(verb: Verb, why: &Error) -> bool {
    let is_undecided = matches!(why, Error::Client(ClientError::Frame(FrameError::Timeout)));
    verb.needs_nrid() || (verb == Verb::Update && is_undecided)
}

/// Reads a `--pid-file`. runc resolves a relative path in the working directory, crun in the
/// bundle.
fn read_pid(file: &OsStr, args: &VerbArgs<'_>) -> Option<i32> {
    let here = working_dir();
    let bundle = here.join(OsStr::from_bytes(args.bundle.unwrap_or_default()));
    [here, bundle]
        .iter()
        .find_map(|dir| std::fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok())
}

/// Whether a previous `nrid` has left records of containers.
fn has_records(state_dir: &Path) -> bool {
    std::fs::read_dir(state_dir.join(RECORDS_DIR)).is_ok_and(|mut entries| entries.next().is_some())
}

/// Returns a file with the resources, which replaces stdin.
fn resources_file(content: &[u8]) -> Result<OwnedFd, Error> {
    memory::file_with("resources", content).map_err(|source| Error::System {
        action: "copy the resources for the real runtime",
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An update passed all plugins after the time limit, required ones included.
    #[test]
    fn an_update_does_not_proceed_while_an_nrid_that_is_alive_decides_about_it() {
        let late = || Error::from(ClientError::from(FrameError::Timeout));
        let hangs = ClientError::Hangs { socket: "s".into(), limit: std::time::Duration::ZERO };
        let absent = [Error::from(ClientError::from(FrameError::Closed)), hangs.into()];
        assert!(depends_on_reply(Verb::Update, &late()));
        assert!(!depends_on_reply(Verb::Delete, &late()));
        for why in [late()].iter().chain(&absent) {
            assert!(depends_on_reply(Verb::Create, why) && depends_on_reply(Verb::Start, why));
        }
        assert!(absent.iter().all(|why| !depends_on_reply(Verb::Update, why)));
    }
}
