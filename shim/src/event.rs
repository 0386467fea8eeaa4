//! A verb with an event: asks `nrid`, runs the real runtime accordingly, reports how it ended.
//!
//! What is done when `nrid` cannot answer is decided here and nowhere else, by [`Policy`] and the
//! key `unreachable`.

use crate::{
    Error,
    args::Scanned,
    begin::{self, Bundle},
    call::Call,
    exec::Target,
    id,
    log_line::LogLine,
    memory,
    resources::{self, Document},
    signals, spawn,
    verb::Policy,
    verb_args::{self, VerbArgs},
};
use nri_config::Unreachable;
use nri_control::{
    Client, ClientError, Exit, Finished, FrameError, Launcher, OsText, RECORDS_DIR, Reply, Request,
    Substitute, Verb,
};
use nri_locate::{LoadedConfig, NRID, find_own_program, working_dir};
use std::{
    ffi::OsStr,
    io::ErrorKind,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::Duration,
};

/// How long `nrid` may take to answer before the verb. It bounds each plugin by itself; this leaves
/// room for requests that wait in a queue behind slow plugins. One that gives no sign of life is
/// not waited for, see [`Event::silence`].
const ANSWER: Duration = Duration::from_secs(120);
/// How long it may take afterwards, and before what is done in any case.
const AFTERWARDS: Duration = Duration::from_secs(30);
/// The longest silence of an `nrid` before the verb is done without it, where it is.
const SILENCE: Duration = Duration::from_secs(10);

/// A verb that carries an event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event<'a> {
    pub(crate) call: &'a Call,
    pub(crate) verb: Verb,
    pub(crate) scanned: &'a Scanned,
    pub(crate) loaded: &'a LoadedConfig,
    pub(crate) log: &'a LogLine,
}

/// What `nrid` wants, with the connection to report to.
enum Answer {
    /// Run it so, and report.
    Proceed(Substitute, Client),
    /// Run it as it was called.
    Pass,
}

/// Does all of it; `problem` is the configuration's, `target` the verb as it was called. Returns
/// the exit code.
pub(crate) fn handle(
    event: Event<'_>,
    problem: Option<Error>,
    mut target: Target,
) -> Result<i32, Error> {
    let args = verb_args::read(event.verb, &event.scanned.rest);
    let (Some(typed), false) = (args.id.as_deref(), args.informs) else {
        // No id: the real runtime says how it is called.
        return Err(target.exec(event.call));
    };
    let id = match id::check(typed) {
        Ok(id) => id,
        // What may match no record (crun's `delete --regex`) is the runtime's to refuse.
        Err(_) if event.verb == Verb::Delete => return Err(target.exec(event.call)),
        Err(e) => return Err(e),
    };
    // With a broken configuration it is not known where nrid is, nor what its absence means.
    match problem {
        Some(problem) if event.verb.needs_nrid() => return Err(problem),
        Some(_) => return Err(target.exec(event.call)),
        None => {}
    }
    // Plugins need not hear of what cannot become a container; the real runtime says so in its own
    // words.
    if begin::is_missing(&event, &args) {
        return Err(target.exec(event.call));
    }
    match event.ask(id, &args, &mut target)? {
        Answer::Pass => Err(target.exec(event.call)),
        Answer::Proceed(substitute, mut client) => {
            event.substitute(substitute, &mut target)?;
            if event.verb.execs() {
                return Err(target.exec(event.call));
            }
            event.run_and_report(&target, &args, &mut client)
        }
    }
}

impl Event<'_> {
    fn ask(&self, id: &str, args: &VerbArgs, target: &mut Target) -> Result<Answer, Error> {
        let bundle = Bundle::open(self, args)?;
        let Some(mut client) = self.connect()? else { return Ok(Answer::Pass) };
        let resources = self.resources(args, target)?;
        let begin = begin::message(self, &target.runtime, id, args, bundle.as_ref(), resources);
        let request = Request::Begin(Box::new(begin));
        let mut reply = self.begin(&mut client, &request, bundle.as_ref());
        if matches!(reply, Err(ClientError::Frame(FrameError::Closed))) {
            // An nrid that is ending closes connections that it has not come to. What it had begun
            // without an answer is settled by the next one, which may be asked; a second time is no
            // accident. One that was killed may accept connections until it is gone.
            client.wait_ended();
            let Some(next) = self.connect()? else { return Ok(Answer::Pass) };
            client = next;
            reply = self.begin(&mut client, &request, bundle.as_ref());
        }
        match reply {
            Ok(Reply::Proceed(substitute)) => Ok(Answer::Proceed(substitute, client)),
            Ok(Reply::Bypass) => Ok(Answer::Pass),
            Ok(Reply::Refused { message }) if self.verb.ignores_refusal() => {
                self.log.warning(&message);
                Ok(Answer::Pass)
            }
            Ok(Reply::Refused { message }) => Err(Error::Refused(message)),
            Ok(_) => self.without_nrid(Error::Answer).map(|()| Answer::Pass),
            Err(e) => self.without_nrid(e.into()).map(|()| Answer::Pass),
        }
    }

    fn begin(
        &self,
        client: &mut Client,
        request: &Request,
        bundle: Option<&Bundle>,
    ) -> Result<Reply, ClientError> {
        let fds: Vec<_> = bundle.iter().map(|b| b.fd.as_fd()).collect();
        client.set_patience(self.before(), self.silence())?;
        client.first_call(request, &fds)
    }

    /// `None`: go on without.
    fn connect(&self) -> Result<Option<Client>, Error> {
        let state_dir = self.loaded.state_dir(&self.call.environment);
        let mut launcher = Launcher {
            program: None,
            state_dir,
            config: self.loaded.named.clone(),
            timeout: self.loaded.config.start_timeout,
        };
        // An update as the engine sends it would undo what plugins set.
        if self.verb.needs_nrid() || (self.verb == Verb::Update && has_records(&launcher.state_dir))
        {
            launcher.program = find_own_program(NRID, &self.call.environment);
            return match launcher.connect_or_start() {
                Ok(client) => Ok(Some(client)),
                Err(e) => self.without_nrid(e.into()).map(|()| None),
            };
        }
        match launcher.connect() {
            Ok(client) => Ok(Some(client)),
            // No nrid, no record: nothing is lost by not telling. What is deleted meanwhile, the
            // next nrid notices.
            Err(ClientError::Connect(e))
                if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(e) => self.without_nrid(e.into()).map(|()| None),
        }
    }

    /// Whether the verb goes on although `nrid` does not do its work, and says so.
    fn without_nrid(&self, why: Error) -> Result<(), Error> {
        if self.verb.needs_nrid() && self.loaded.config.unreachable == Unreachable::Fail {
            return Err(why);
        }
        self.log.warning(&format!("continuing without NRI: {why}"));
        Ok(())
    }

    /// The resources document as text. A document that can be read only once is put back into
    /// `target`.
    fn resources(&self, args: &VerbArgs, target: &mut Target) -> Result<Option<String>, Error> {
        let Some(given) = args.resources.as_ref().filter(|_| self.verb == Verb::Update) else {
            return Ok(None);
        };
        let Some(Document { content, is_spent }) = resources::read(given)? else { return Ok(None) };
        if is_spent {
            target.stdin = Some(hold(&content)?);
            target.set_rest(self.scanned, resources::from_stdin(&self.scanned.rest, given));
        }
        // What is not UTF-8 is no JSON; the real runtime says so.
        Ok(String::from_utf8(content).ok())
    }

    fn substitute(&self, substitute: Substitute, target: &mut Target) -> Result<(), Error> {
        if let Some(arguments) = substitute.arguments {
            target.set_rest(self.scanned, arguments.into_iter().map(|OsText(a)| a).collect());
        }
        if let Some(text) = substitute.stdin {
            target.stdin = Some(hold(text.as_bytes())?);
        }
        Ok(())
    }

    fn run_and_report(
        &self,
        target: &Target,
        args: &VerbArgs,
        client: &mut Client,
    ) -> Result<i32, Error> {
        let (exit, failed) = match spawn::run(target, self.call) {
            Ok(exit) => (exit, None),
            Err(e) => (Exit::NotStarted, Some(e)),
        };
        let pid = args.pid_file.as_deref().filter(|_| self.verb == Verb::Create && exit.success());
        let finished = Finished { exit, pid: pid.and_then(|file| self.read_pid(file, args)) };
        let reply = client
            .set_patience(self.afterwards(), SILENCE.min(self.loaded.config.start_timeout))
            .and_then(|()| client.call(&Request::Finished(finished), &[]));
        if let Some(e) = failed {
            return Err(e);
        }
        match reply {
            Ok(Reply::Refused { message }) if exit.success() && !self.verb.ignores_refusal() => {
                return Err(Error::Refused(message));
            }
            Ok(_) => {}
            // The real runtime has done its work; that counts.
            Err(e) => self.log.warning(&format!("{e}; the real runtime has done its work")),
        }
        Ok(match exit {
            Exit::Code(code) => code,
            Exit::Signal(signal) => {
                signals::die_by(signal);
                128 + signal
            }
            Exit::NotStarted => 1,
        })
    }

    fn before(&self) -> Duration {
        match self.verb {
            // nrid goes on by itself where we do not wait.
            Verb::Delete => self.afterwards(),
            _ => ANSWER.max(self.loaded.config.plugin_request_timeout * 20),
        }
    }

    /// How long it may take until `nrid` says anything: one that systemd is just starting says
    /// nothing before it is ready.
    fn silence(&self) -> Duration {
        let starting = self.loaded.config.start_timeout;
        if self.verb.needs_nrid() { starting } else { starting.min(SILENCE) }
    }

    fn afterwards(&self) -> Duration {
        AFTERWARDS.max(self.loaded.config.plugin_request_timeout * 5)
    }

    /// runc takes a relative `--pid-file` from the working directory, crun from the bundle.
    fn read_pid(&self, file: &OsStr, args: &VerbArgs) -> Option<i32> {
        let here = working_dir();
        let bundle = here.join(args.bundle.as_deref().unwrap_or_default());
        [here, bundle]
            .iter()
            .find_map(|dir| std::fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok())
    }
}

/// Whether an `nrid` has kept records here, of which the next one knows.
fn has_records(state_dir: &Path) -> bool {
    std::fs::read_dir(state_dir.join(RECORDS_DIR)).is_ok_and(|mut entries| entries.next().is_some())
}

/// Resources in place of stdin.
fn hold(resources: &[u8]) -> Result<OwnedFd, Error> {
    memory::holding("resources", resources).map_err(|e| Error::System(e, "hand over the resources"))
}
