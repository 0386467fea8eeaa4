//! Table of the protocol's events, and the calls that deliver them to a plugin.
//!
//! The table at the end covers every event of the protocol. [`crate::plugin::handle`] makes the
//! calls and handles their failures; requests are encoded in [`crate::plugin::request`].

use nri_api::{Packable, proto::*};
use nri_wire::CallError;
use protobuf::{Message, MessageField};

/// A request of the protocol that delivers an event.
pub(crate) trait EventRequest: Message {
    /// Reply of the plugin.
    type Reply: Packable;
    /// Event that the request delivers, and that plugins subscribe to.
    const EVENT: Event;
    /// Name of the call.
    const METHOD: &'static str;

    /// Returns the `StateChange` that delivers the event to old plugins; `None` for events that
    /// never had this form.
    fn state_change(&self) -> Option<StateChangeEvent>;

    /// Whether the event is about a pod, and not about one of its containers.
    const ABOUT_POD: bool;

    /// Whether a plugin can refuse what the event is about, with an error as its reply. Errors in
    /// reply to other events change nothing.
    const CAN_BE_REFUSED: bool;

    /// Returns the id of the container, or of the pod for an event of a pod.
    fn subject(&self) -> &str;

    /// Returns the id of the pod.
    fn pod_id(&self) -> &str;

    /// Returns the pod, and the container unless the event is about the pod.
    fn about(&self) -> (&PodSandbox, Option<&Container>);
}

macro_rules! events {
    ($($event:ident $about:ident $form:ident $effect:ident:
        $call:literal($request:ident) -> $reply:ident;)*) => {
        $(impl EventRequest for $request {
            type Reply = $reply;
            const EVENT: Event = Event::$event;
            const METHOD: &'static str = $call;
            const ABOUT_POD: bool = events!(@about_pod $about);
            const CAN_BE_REFUSED: bool = events!(@can_be_refused $effect);

            fn state_change(&self) -> Option<StateChangeEvent> {
                events!(@form $form self.pod, events!(@container $about self))
                    .map(|(pod, container)| state_change(Event::$event, pod, container))
            }

            fn subject(&self) -> &str {
                &self.$about.id
            }

            fn pod_id(&self) -> &str {
                &self.pod.id
            }

            fn about(&self) -> (&PodSandbox, Option<&Container>) {
                (&*self.pod, events!(@about $about self))
            }
        })*
    };
    (@about_pod pod) => { true };
    (@about_pod container) => { false };
    (@can_be_refused consent) => { true };
    (@can_be_refused notice) => { false };
    (@about pod $self:ident) => { None };
    (@about container $self:ident) => { Some(&*$self.container) };
    (@container pod $self:ident) => { MessageField::none() };
    (@container container $self:ident) => { $self.container.clone() };
    (@form new $pod:expr, $container:expr) => {
        None::<(MessageField<PodSandbox>, MessageField<Container>)>
    };
    (@form old $pod:expr, $container:expr) => { Some(($pod.clone(), $container)) };
}

fn state_change(
    event: Event,
    pod: MessageField<PodSandbox>,
    container: MessageField<Container>,
) -> StateChangeEvent {
    StateChangeEvent { event: event.into(), pod, container, ..StateChangeEvent::default() }
}

/// Rejects a reply in which a known field has another wire type.
///
/// Protobuf treats such a field as unknown, so that a validator's verdict could be dropped without
/// an error. Fields with unknown numbers are those of a newer protocol, and accepted.
pub(crate) fn check_types<R: Packable>(reply: R) -> Result<R, CallError> {
    let mut unknown = reply.special_fields().unknown_fields().iter().peekable();
    if unknown.peek().is_none() {
        return Ok(reply);
    }
    match unknown.find(|(number, _)| R::has_field(*number)) {
        None => Ok(reply),
        Some((number, _)) => {
            Err(CallError::Malformed(format!("field {number} of {} has the wrong type", R::NAME)))
        }
    }
}

// Columns: event, subject (pod or container), form, effect of an error, call. The form `old` is an
// event that old plugins receive as a StateChange; the form `new` is an event that was never sent
// as a StateChange. An event that needs the plugin's `consent` is refused by an error, a `notice`
// is not.
events! {
    RUN_POD_SANDBOX pod old consent:
        "RunPodSandbox"(RunPodSandboxRequest) -> RunPodSandboxResponse;
    UPDATE_POD_SANDBOX pod new consent:
        "UpdatePodSandbox"(UpdatePodSandboxRequest) -> UpdatePodSandboxResponse;
    POST_UPDATE_POD_SANDBOX pod old notice:
        "PostUpdatePodSandbox"(PostUpdatePodSandboxRequest) -> PostUpdatePodSandboxResponse;
    STOP_POD_SANDBOX pod old notice:
        "StopPodSandbox"(StopPodSandboxRequest) -> StopPodSandboxResponse;
    REMOVE_POD_SANDBOX pod old notice:
        "RemovePodSandbox"(RemovePodSandboxRequest) -> RemovePodSandboxResponse;
    CREATE_CONTAINER container new consent:
        "CreateContainer"(CreateContainerRequest) -> CreateContainerResponse;
    POST_CREATE_CONTAINER container old notice:
        "PostCreateContainer"(PostCreateContainerRequest) -> PostCreateContainerResponse;
    START_CONTAINER container old consent:
        "StartContainer"(StartContainerRequest) -> StartContainerResponse;
    POST_START_CONTAINER container old notice:
        "PostStartContainer"(PostStartContainerRequest) -> PostStartContainerResponse;
    UPDATE_CONTAINER container new consent:
        "UpdateContainer"(UpdateContainerRequest) -> UpdateContainerResponse;
    POST_UPDATE_CONTAINER container old notice:
        "PostUpdateContainer"(PostUpdateContainerRequest) -> PostUpdateContainerResponse;
    STOP_CONTAINER container new notice:
        "StopContainer"(StopContainerRequest) -> StopContainerResponse;
    REMOVE_CONTAINER container old notice:
        "RemoveContainer"(RemoveContainerRequest) -> RemoveContainerResponse;
    VALIDATE_CONTAINER_ADJUSTMENT container new consent:
        "ValidateContainerAdjustment"(ValidateContainerAdjustmentRequest)
            -> ValidateContainerAdjustmentResponse;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No plugin implements a call with a wrong name, so such a call would always fail.
    #[test]
    fn calls_have_the_names_of_the_protocol() {
        fn check<Q: EventRequest>() {
            assert_eq!(format!("{}Request", Q::METHOD), Q::NAME);
            assert_eq!(Q::Reply::NAME, format!("{}Response", Q::METHOD));
            let event: String = format!("{:?}", Q::EVENT).split('_').map(capitalized).collect();
            assert_eq!(event, Q::METHOD);
        }
        fn capitalized(word: &str) -> String {
            let (first, rest) = word.split_at(1);
            first.to_owned() + &rest.to_lowercase()
        }
        check::<RunPodSandboxRequest>();
        check::<UpdatePodSandboxRequest>();
        check::<PostUpdatePodSandboxRequest>();
        check::<StopPodSandboxRequest>();
        check::<RemovePodSandboxRequest>();
        check::<CreateContainerRequest>();
        check::<PostCreateContainerRequest>();
        check::<StartContainerRequest>();
        check::<PostStartContainerRequest>();
        check::<UpdateContainerRequest>();
        check::<PostUpdateContainerRequest>();
        check::<StopContainerRequest>();
        check::<RemoveContainerRequest>();
        check::<ValidateContainerAdjustmentRequest>();
    }
}
