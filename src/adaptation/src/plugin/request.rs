//! Requests to plugins in encoded form: a part that several plugins receive is encoded once.

use nri_api::proto::{CreateContainerRequest, StateChangeEvent, UpdateContainerRequest};
use nri_merge::{CreateMerge, UpdateMerge};
use protobuf::Message;
use protobuf::rt::WireType;
use std::sync::Arc;

use crate::plugin::breaker::Source;
use crate::plugin::calls::EventRequest;

/// Numbers of the fields of `CreateContainerRequest` and `UpdateContainerRequest`.
const POD: u32 = 1;
const CONTAINER: u32 = 2;
const LINUX_RESOURCES: u32 = 3;

/// An encoded part of a message. Clones share the bytes.
pub(crate) type Part = Arc<[u8]>;

/// An encoded request. Clones share the bytes.
#[derive(Debug, Clone)]
pub(crate) struct EncodedRequest<Q> {
    subject: Arc<str>,
    pod: Arc<str>,
    /// The container, if a budget of the plugin limits the request.
    source: Option<Source>,
    parts: [Part; 2],
    /// The request itself, if old plugins may need it in another form.
    message: Option<Arc<Q>>,
}

impl<Q: EventRequest> EncodedRequest<Q> {
    /// Encodes a request.
    pub(crate) fn new(message: Q) -> Self {
        // Encoding in memory fails for required fields only, which the protocol does not have.
        let encoded = message.write_to_bytes().unwrap_or_default();
        Self {
            subject: message.subject().into(),
            pod: message.pod_id().into(),
            source: None,
            parts: [encoded.into(), Part::default()],
            message: Some(Arc::new(message)),
        }
    }

    /// Returns the id of the container, or of the pod for an event of a pod.
    pub(crate) fn subject(&self) -> &str {
        &self.subject
    }

    /// Returns the id of the container; `None` for an event of a pod.
    pub(crate) fn container(&self) -> Option<&str> {
        (!Q::ABOUT_POD).then_some(&*self.subject)
    }

    /// Returns the id of the pod.
    pub(crate) fn pod(&self) -> &str {
        &self.pod
    }

    /// Returns the container of a request that a budget of the plugin limits.
    pub(crate) fn source(&self) -> Option<Source> {
        self.source
    }

    /// Returns the size of the encoded request in bytes.
    pub(crate) fn size(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Returns the parts of the encoded request.
    pub(crate) fn parts(&self) -> [&[u8]; 2] {
        [&self.parts[0], &self.parts[1]]
    }

    /// Returns the `StateChange` that delivers the event to old plugins, if it has this form.
    pub(crate) fn state_change(&self) -> Option<StateChangeEvent> {
        self.message.as_ref().and_then(|message| message.state_change())
    }
}

/// Requests of one creation.
pub(crate) struct CreateRequests {
    subject: Arc<str>,
    pod_id: Arc<str>,
    source: Source,
    pod: Part,
    /// The container as adjusted so far; `None` after a further adjustment.
    container: Option<Part>,
}

impl CreateRequests {
    pub(crate) fn new(merge: &CreateMerge) -> Self {
        Self {
            subject: merge.container().id.as_str().into(),
            pod_id: merge.pod().id.as_str().into(),
            source: Source::of(merge.pod(), merge.container()),
            pod: field(POD, merge.pod()),
            container: None,
        }
    }

    /// Returns the container that the creation is about.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Returns the request for the next plugin.
    pub(crate) fn next(&mut self, merge: &CreateMerge) -> EncodedRequest<CreateContainerRequest> {
        let container =
            self.container.get_or_insert_with(|| field(CONTAINER, merge.container())).clone();
        let parts = [self.pod.clone(), container];
        let (subject, pod) = (self.subject.clone(), self.pod_id.clone());
        EncodedRequest { subject, pod, source: Some(self.source), parts, message: None }
    }

    /// Records that the container was adjusted: the next request encodes it again.
    pub(crate) fn adjusted(&mut self) {
        self.container = None;
    }
}

/// Requests of one update.
pub(crate) struct UpdateRequests {
    subject: Arc<str>,
    pod_id: Arc<str>,
    source: Source,
    /// Pod and container.
    about: Part,
}

impl UpdateRequests {
    pub(crate) fn new(merge: &UpdateMerge) -> Self {
        let about = [field(POD, merge.pod()), field(CONTAINER, merge.container())];
        Self {
            subject: merge.container().id.as_str().into(),
            pod_id: merge.pod().id.as_str().into(),
            source: Source::of(merge.pod(), merge.container()),
            about: about.concat().into(),
        }
    }

    /// Returns the container that the update is about.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// Returns the request for the next plugin.
    pub(crate) fn next(&self, merge: &UpdateMerge) -> EncodedRequest<UpdateContainerRequest> {
        let parts = [self.about.clone(), field(LINUX_RESOURCES, merge.resources())];
        let (subject, pod) = (self.subject.clone(), self.pod_id.clone());
        EncodedRequest { subject, pod, source: Some(self.source), parts, message: None }
    }
}

/// Encodes a message as a field of another message.
fn field(number: u32, message: &impl Message) -> Part {
    let size = message.compute_size();
    let mut bytes = Vec::with_capacity(size as usize + 8);
    let mut out = protobuf::CodedOutputStream::vec(&mut bytes);
    // Writing to memory does not fail.
    let _ = out
        .write_tag(number, WireType::LengthDelimited)
        .and_then(|()| out.write_raw_varint64(size))
        .and_then(|()| message.write_to_with_cached_sizes(&mut out))
        .and_then(|()| out.flush());
    drop(out);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nri_api::PluginId;
    use nri_api::proto::*;

    fn decoded<Q: EventRequest>(request: &EncodedRequest<Q>) -> Q {
        Q::parse_from_bytes(&request.parts().concat()).unwrap()
    }

    #[test]
    fn the_parts_of_a_request_decode_to_the_request_of_the_merge() {
        let plugin = PluginId::new("10", "a").unwrap();
        // With 2000 variables the length of the container takes three bytes, otherwise one.
        for (pod, env) in [("", 0), ("p", 1), ("pod", 2000)] {
            let pod_id = pod;
            let pod = PodSandbox { id: pod.into(), ..Default::default() };
            let env = (0..env).map(|n| format!("A{n}=1")).collect();
            let container = Container { id: "c".into(), env, ..Default::default() };
            let mut merge = CreateMerge::new(pod.clone(), container.clone());
            let mut requests = CreateRequests::new(&merge);
            assert_eq!(decoded(&requests.next(&merge)), merge.request());
            let args = vec!["sh".to_owned()];
            let adjust = ContainerAdjustment { args, ..Default::default() };
            let adjust = Some(adjust).into();
            merge.reply(&plugin, CreateContainerResponse { adjust, ..Default::default() }).unwrap();
            requests.adjusted();
            let next = requests.next(&merge);
            assert_eq!(decoded(&next), merge.request());
            assert_eq!(decoded(&next).container.args, ["sh"]);
            assert_eq!((next.subject(), next.container()), ("c", Some("c")));
            assert_eq!(next.pod(), pod_id);

            let mut merge = UpdateMerge::new(pod, container, LinuxResources::default());
            let requests = UpdateRequests::new(&merge);
            assert_eq!(decoded(&requests.next(&merge)), merge.request());
            let resources = LinuxResources {
                unified: [("pids.max".to_owned(), "7".to_owned())].into(),
                ..Default::default()
            };
            let linux =
                LinuxContainerUpdate { resources: Some(resources).into(), ..Default::default() };
            let update = vec![ContainerUpdate {
                container_id: "c".into(),
                linux: Some(linux).into(),
                ..Default::default()
            }];
            merge.reply(&plugin, UpdateContainerResponse { update, ..Default::default() }).unwrap();
            let next = requests.next(&merge);
            assert_eq!(decoded(&next), merge.request());
            assert_eq!(decoded(&next).linux_resources.unified["pids.max"], "7");
        }
    }
}
