//! The trait that a plugin implements: a method for each event.

use crate::{
    Changes, Creation, EventMask, Reply, Session, Update,
    not_handled::{NotHandled, is_handled},
};
use nri_api::proto::*;

/// An NRI plugin. It implements the methods of the events that it handles, as `async fn`, and is
/// subscribed to these events; all others have a default that changes nothing.
///
/// ```
/// use nri_plugin::prelude::*;
///
/// struct Namer;
///
/// impl Plugin for Namer {
///     async fn create_container(
///         &self,
///         _: &Session,
///         _: PodSandbox,
///         container: Container,
///     ) -> Reply<Creation> {
///         let mut adjustment = Adjustment::new();
///         adjustment.add_env("NAME", &container.name);
///         Ok(adjustment.into())
///     }
/// }
///
/// let events = nri_plugin::handled_events::<Namer>();
/// assert_eq!(events, EventMask::from_iter([Event::CREATE_CONTAINER]));
/// ```
///
/// The runtime sends one event at a time and waits for the reply, up to a timeout
/// ([`RuntimeInfo::request_timeout`](crate::RuntimeInfo)). After a timeout the runtime continues
/// without the plugin, and handlers may overlap. A handler is never cancelled. A panic of a handler
/// fails only the event.
///
/// A plugin that connects again (see [`Builder::run`](crate::Builder::run)) has one session after
/// the other, each with its own configuration and synchronization.
pub trait Plugin: Send + Sync + Sized + 'static {
    /// Returns the events that the plugin subscribes to. Called after
    /// [`configure`](Self::configure), once per session. Default: [`handled_events`]. A plugin
    /// implements this method only if the events depend on its configuration.
    ///
    /// The protocol cannot say "no event": a plugin with an empty set receives
    /// `REMOVE_POD_SANDBOX`. A runtime before NRI v0.12 may not know all events, and would refuse a
    /// subscription to an event that it does not know; if such an event is in the set, it is asked
    /// for all events that it knows.
    fn events(&self) -> EventMask {
        handled_events::<Self>()
    }

    /// Returns how the runtime handles a failure of the plugin to reply, unless
    /// [`Builder::failure_policy`](crate::Builder::failure_policy) says that. Called after
    /// [`configure`](Self::configure), once per session. Default: requests fail for a plugin that
    /// is subscribed to validation, since a validator that can be kept from replying would be none;
    /// but not for one that is subscribed to all events, as plugins are that only log. All others
    /// ask for nothing.
    ///
    /// While the plugin is not connected, only `required` of its policy refuses containers.
    fn failure_policy(&self) -> Option<FailurePolicy> {
        let events = self.events();
        let validates = events.contains(Event::VALIDATE_CONTAINER_ADJUSTMENT);
        let is_validator = validates && events != EventMask::ALL;
        is_validator.then(|| FailurePolicy { fail_request: true, ..FailurePolicy::default() })
    }

    /// Receives the content of the plugin's configuration file; empty if there is no file.
    /// Runtimes send the content to launched plugins only. From this call on, [`Session::runtime`]
    /// describes the runtime.
    ///
    /// # Errors
    /// An error ends the session.
    fn configure(&self, session: &Session, config: &str) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, config);
        NotHandled::new()
    }

    /// Receives the content of the plugin's own configuration file: when the plugin starts, before
    /// any session, and after SIGHUP (see [`Builder::config_file`](crate::Builder::config_file)).
    /// The events that the plugin is subscribed to stay the same. Default:
    /// [`configure`](Self::configure).
    ///
    /// # Errors
    /// The configuration has a mistake. The plugin must go on as before: only its start fails.
    fn reconfigure(
        &self,
        session: &Session,
        config: &str,
    ) -> impl Future<Output = Reply<()>> + Send {
        self.configure(session, config)
    }

    /// Receives all existing pods and containers when the plugin connects. Returns updates of
    /// containers.
    fn synchronize(
        &self,
        session: &Session,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> impl Future<Output = Reply<Vec<Update>>> + Send {
        let _ = (session, pods, containers);
        NotHandled::new()
    }

    /// Called before the session ends in order: the runtime shuts down, or this process was told to
    /// end (see [`Builder::run`](crate::Builder::run)).
    fn shutdown(&self, session: &Session) -> impl Future<Output = ()> + Send {
        let _ = session;
        async {}
    }

    /// Called before a pod starts.
    ///
    /// # Errors
    /// An error prevents the start.
    fn run_pod_sandbox(
        &self,
        session: &Session,
        pod: PodSandbox,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod);
        NotHandled::new()
    }

    /// Called before a pod's resources change to `resources`.
    ///
    /// # Errors
    /// An error prevents the change.
    fn update_pod_sandbox(
        &self,
        session: &Session,
        pod: PodSandbox,
        overhead: LinuxResources,
        resources: LinuxResources,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod, overhead, resources);
        NotHandled::new()
    }

    /// Called after a pod's resources changed.
    fn post_update_pod_sandbox(
        &self,
        session: &Session,
        pod: PodSandbox,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod);
        NotHandled::new()
    }

    /// Called after a pod stopped.
    fn stop_pod_sandbox(
        &self,
        session: &Session,
        pod: PodSandbox,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod);
        NotHandled::new()
    }

    /// Called after a pod was removed.
    fn remove_pod_sandbox(
        &self,
        session: &Session,
        pod: PodSandbox,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod);
        NotHandled::new()
    }

    /// Called before a container is created; `container` has the adjustments of earlier plugins.
    /// Returns the adjustment of the container, and updates and evictions of other containers.
    ///
    /// # Errors
    /// An error prevents the creation.
    fn create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<Creation>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Called after a container was created.
    fn post_create_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Called before a container starts.
    ///
    /// # Errors
    /// An error prevents the start.
    fn start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Called after a container started.
    fn post_start_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Called before a container's resources change to `resources`. A returned update of this
    /// container overrides `resources` field by field.
    ///
    /// # Errors
    /// An error prevents the update.
    fn update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
        resources: LinuxResources,
    ) -> impl Future<Output = Reply<Changes>> + Send {
        let _ = (session, pod, container, resources);
        NotHandled::new()
    }

    /// Called after a container's resources changed.
    fn post_update_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Called after a container stopped. Returns updates of other containers.
    fn stop_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<Vec<Update>>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Called after a container was removed.
    fn remove_container(
        &self,
        session: &Session,
        pod: PodSandbox,
        container: Container,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, pod, container);
        NotHandled::new()
    }

    /// Validates the merged adjustment of a container, after all plugins replied to its creation.
    ///
    /// # Errors
    /// An error rejects the creation; its text is the reason.
    fn validate_container_adjustment(
        &self,
        session: &Session,
        request: ValidateContainerAdjustmentRequest,
    ) -> impl Future<Output = Reply<()>> + Send {
        let _ = (session, request);
        NotHandled::new()
    }
}

/// Returns the events whose methods `P` implements.
///
/// An `async fn` of an implementation has a type of its own, which is compared with that of the
/// default. No method is called.
pub fn handled_events<P: Plugin>() -> EventMask {
    let mut events = EventMask::NONE;
    macro_rules! collect {
        ($($event:ident: $method:ident($($argument:ty),*) -> $reply:ty;)*) => {$({
            fn is_own<P: 'static, F: 'static>(
                _: impl Fn(&'static P, &'static Session, $($argument),*) -> F,
            ) -> bool {
                is_handled::<F, $reply>()
            }
            if is_own(P::$method) {
                events = events.with(Event::$event);
            }
        })*};
    }
    collect! {
        RUN_POD_SANDBOX: run_pod_sandbox(PodSandbox) -> ();
        STOP_POD_SANDBOX: stop_pod_sandbox(PodSandbox) -> ();
        REMOVE_POD_SANDBOX: remove_pod_sandbox(PodSandbox) -> ();
        CREATE_CONTAINER: create_container(PodSandbox, Container) -> Creation;
        POST_CREATE_CONTAINER: post_create_container(PodSandbox, Container) -> ();
        START_CONTAINER: start_container(PodSandbox, Container) -> ();
        POST_START_CONTAINER: post_start_container(PodSandbox, Container) -> ();
        UPDATE_CONTAINER: update_container(PodSandbox, Container, LinuxResources) -> Changes;
        POST_UPDATE_CONTAINER: post_update_container(PodSandbox, Container) -> ();
        STOP_CONTAINER: stop_container(PodSandbox, Container) -> Vec<Update>;
        REMOVE_CONTAINER: remove_container(PodSandbox, Container) -> ();
        UPDATE_POD_SANDBOX:
            update_pod_sandbox(PodSandbox, LinuxResources, LinuxResources) -> ();
        POST_UPDATE_POD_SANDBOX: post_update_pod_sandbox(PodSandbox) -> ();
        VALIDATE_CONTAINER_ADJUSTMENT:
            validate_container_adjustment(ValidateContainerAdjustmentRequest) -> ();
    }
    events
}

/// Whether a plugin takes a configuration: whether it implements [`Plugin::configure`].
pub(crate) fn takes_configuration<P: Plugin>() -> bool {
    fn is_own<P: 'static, F: 'static>(
        _: impl Fn(&'static P, &'static Session, &'static str) -> F,
    ) -> bool {
        is_handled::<F, ()>()
    }
    is_own(P::configure)
}

#[cfg(test)]
mod tests {
    use super::*;

    macro_rules! plugins {
        ($($event:ident $name:ident: $method:ident($($argument:ty),*) -> $reply:ty;)*) => {
            $(
                struct $name;
                impl Plugin for $name {
                    async fn $method(&self, _: &Session, $(_: $argument),*) -> Reply<$reply> {
                        Err("not called".into())
                    }
                }
            )*
            const EACH: &[(Event, fn() -> EventMask)] =
                &[$((Event::$event, handled_events::<$name>)),*];
        };
    }
    plugins! {
        RUN_POD_SANDBOX A: run_pod_sandbox(PodSandbox) -> ();
        STOP_POD_SANDBOX B: stop_pod_sandbox(PodSandbox) -> ();
        REMOVE_POD_SANDBOX C: remove_pod_sandbox(PodSandbox) -> ();
        CREATE_CONTAINER D: create_container(PodSandbox, Container) -> Creation;
        POST_CREATE_CONTAINER E: post_create_container(PodSandbox, Container) -> ();
        START_CONTAINER F: start_container(PodSandbox, Container) -> ();
        POST_START_CONTAINER G: post_start_container(PodSandbox, Container) -> ();
        UPDATE_CONTAINER H: update_container(PodSandbox, Container, LinuxResources) -> Changes;
        POST_UPDATE_CONTAINER I: post_update_container(PodSandbox, Container) -> ();
        STOP_CONTAINER J: stop_container(PodSandbox, Container) -> Vec<Update>;
        REMOVE_CONTAINER K: remove_container(PodSandbox, Container) -> ();
        UPDATE_POD_SANDBOX L:
            update_pod_sandbox(PodSandbox, LinuxResources, LinuxResources) -> ();
        POST_UPDATE_POD_SANDBOX M: post_update_pod_sandbox(PodSandbox) -> ();
        VALIDATE_CONTAINER_ADJUSTMENT N:
            validate_container_adjustment(ValidateContainerAdjustmentRequest) -> ();
    }

    struct Idle<T>(T);
    impl<T: Send + Sync + 'static> Plugin for Idle<T> {
        async fn synchronize(
            &self,
            _: &Session,
            _: Vec<PodSandbox>,
            _: Vec<Container>,
        ) -> Reply<Vec<Update>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_plugin_handles_the_events_of_its_methods() {
        for (event, handled) in EACH {
            assert_eq!(handled(), EventMask::from_iter([*event]));
        }
        let each: EventMask = EACH.iter().map(|(event, _)| *event).collect();
        assert_eq!(each, EventMask::ALL);
        assert_eq!(Idle(1).events(), EventMask::NONE);
        assert_eq!(handled_events::<Idle<String>>(), EventMask::NONE);
    }
}
