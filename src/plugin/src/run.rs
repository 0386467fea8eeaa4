//! Runs a plugin as a program: keeps it connected, and ends it in order.

use crate::{
    Builder, Plugin, Stub, StubError, environment::PluginEnvironment, error::with_causes,
    stub::STOP_TIMEOUT,
};
use nri_api::PluginId;
use std::{
    io::{Write, stderr},
    pin::{Pin, pin},
    process::ExitCode,
    time::Duration,
};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{Instant, sleep, timeout},
};

/// First and longest pause before another attempt to connect. A runtime that restarts is back soon;
/// `nrid` and upstream's runtimes do not wait long for plugins.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Runs a plugin until it is told to end, and returns the exit code of the program: what most
/// plugins' `main` consists of. See [`Builder::main`].
///
/// ```no_run
/// use nri_plugin::prelude::*;
///
/// struct Idle;
///
/// impl Plugin for Idle {}
///
/// fn main() -> std::process::ExitCode {
///     nri_plugin::run(Idle)
/// }
/// ```
pub fn run(plugin: impl Plugin) -> ExitCode {
    Stub::builder(plugin).main()
}

impl<P: Plugin> Builder<P> {
    /// Ends the plugin with its first session, or with the first failure to connect, instead of
    /// connecting again.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.is_once = true;
        self
    }

    /// Runs the plugin until it is told to end.
    ///
    /// A plugin that a runtime launched ends with its session. An external plugin connects again
    /// when its session ends or no runtime accepts it, after pauses of 100 ms to 5 s, and is
    /// registered, configured and synchronized anew. It ends with a session in which the runtime
    /// has sent `Shutdown`: `nrid` tells a plugin so that a newer session has replaced it.
    /// (Upstream's runtimes, and an `nrid` that ends, only close connections.)
    ///
    /// SIGHUP makes it read its [configuration file](Self::config_file) again, if it has one.
    /// SIGTERM and SIGINT end the plugin in order: [`Plugin::shutdown`] is called, and events that
    /// the plugin is handling are replied to, for up to 2 s each.
    ///
    /// # Errors
    /// If the plugin has no valid identity, refuses its configuration, or has only one connection
    /// and that fails.
    pub async fn run(self) -> Result<(), StubError> {
        let ends = EndSignals::new()?;
        let environment = self.environment()?;
        let id = self.identity(&environment)?;
        let Some(file) = self.config_file.clone() else {
            return self.sessions(ends, environment, id).await;
        };
        let hangups = signal(SignalKind::hangup()).map_err(StubError::Signals)?;
        let plugin = self.plugin.clone();
        file.load(&*plugin, &id).await?;
        tokio::select! {
            ended = self.sessions(ends, environment, id.clone()) => ended,
            never = file.load_at(hangups, &*plugin, &id) => match never {},
        }
    }

    /// Opens sessions one after the other, until a signal or the runtime ends the plugin.
    async fn sessions(
        mut self,
        mut ends: EndSignals,
        environment: PluginEnvironment,
        plugin: PluginId,
    ) -> Result<(), StubError> {
        let is_once = self.is_once || self.has_one_connection(&environment);
        let (mut pause, mut last_error) = (PAUSES.0, None);
        loop {
            let start = Instant::now();
            let opened = {
                let opening = pin!(self.open(&environment, plugin.clone()));
                ends.or_stopping(opening).await
            };
            let ended = match opened {
                None => return Ok(()),
                Some(Err(error)) => Err(error),
                Some(Ok(stub)) => {
                    last_error = None;
                    match self.session(stub, &mut ends).await {
                        Some(ended) => ended,
                        None => return Ok(()),
                    }
                }
            };
            if is_once || ended.as_ref().is_err_and(|error| !error.is_temporary()) {
                return ended;
            }
            if start.elapsed() > PAUSES.1 {
                pause = PAUSES.0; // it was connected meanwhile
            }
            match ended {
                Ok(()) => tracing::info!("{plugin}: the runtime closed the connection"),
                Err(error) => {
                    let error = with_causes(&error);
                    if last_error.as_ref() == Some(&error) {
                        tracing::debug!("{plugin}: {error}; the next attempt is in {pause:?}");
                    } else {
                        // A runtime may be absent for days: once is enough.
                        tracing::warn!("{plugin}: {error}; trying again");
                        last_error = Some(error);
                    }
                }
            }
            tokio::select! {
                () = sleep(pause) => pause = PAUSES.1.min(pause * 2),
                () = ends.wait() => return Ok(()),
            }
        }
    }

    /// Waits for the end of a session, and returns it; `None` if the plugin was told to end.
    async fn session(&self, stub: Stub, ends: &mut EndSignals) -> Option<Result<(), StubError>> {
        tokio::select! {
            ended = stub.ended() => {
                if !stub.is_shut_down() {
                    return Some(ended);
                }
                let plugin = stub.session().plugin();
                tracing::warn!(
                    "{plugin}: ended by the runtime, as if a newer session of its name replaced it"
                );
                return None;
            }
            () = ends.wait() => {}
        }
        // A handler that hangs must not keep the process from ending.
        timeout(STOP_TIMEOUT, self.plugin.shutdown(stub.session())).await.ok();
        stub.stop().await;
        None
    }

    /// Runs the plugin as [`run`](Self::run) does, in a tokio runtime of its own, and returns the
    /// exit code of the program. With the feature `logging`, messages of `tracing` go to stderr
    /// (see [`logging`](crate::logging)). An error is one line on stderr, with exit code 1.
    pub fn main(self) -> ExitCode {
        #[cfg(feature = "logging")]
        crate::logging::init();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let result = match runtime {
            Ok(runtime) => runtime.block_on(self.run()).map_err(|error| with_causes(&error)),
            Err(error) => Err(error.to_string()),
        };
        match result {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let program = std::env::args().next().unwrap_or_default();
                let name = program.rsplit('/').next().unwrap_or_default();
                // Nothing is left to report a failure to.
                let _ = writeln!(stderr(), "{name}: {error}");
                ExitCode::FAILURE
            }
        }
    }
}

/// The signals that end a plugin.
struct EndSignals {
    signals: [Signal; 2],
    is_received: bool,
}

impl EndSignals {
    fn new() -> Result<Self, StubError> {
        let open = |kind| signal(kind).map_err(StubError::Signals);
        let signals = [open(SignalKind::terminate())?, open(SignalKind::interrupt())?];
        Ok(Self { signals, is_received: false })
    }

    /// Waits for a signal. Returns at once if one was received before.
    async fn wait(&mut self) {
        if self.is_received {
            return;
        }
        let [terminate, interrupt] = &mut self.signals;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        self.is_received = true;
    }

    /// Waits for the result of opening a session, for up to 2 s after a signal: the runtime may
    /// have registered and configured the plugin already, so that the session has to be ended in
    /// order. Returns `None` if there is none to be ended.
    async fn or_stopping<T, E>(
        &mut self,
        mut opening: Pin<&mut impl Future<Output = Result<T, E>>>,
    ) -> Option<Result<T, E>> {
        tokio::select! {
            opened = &mut opening => Some(opened),
            () = self.wait() => timeout(STOP_TIMEOUT, opening).await.ok().filter(Result::is_ok),
        }
    }
}
