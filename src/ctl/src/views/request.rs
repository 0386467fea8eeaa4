//! Requests for descriptions.

use crate::{error::CtlError, nrid, nrid_location::NridLocation};
use nri_control::{
    Client, ClientError, ContainerSummary, Describe, Description, FrameError, Page, PodSummary,
    Reply, Request,
};

/// A connection for requests that old releases of `nrid` do not know.
pub(crate) struct DescribeClient<'a> {
    nrid: &'a NridLocation,
    client: Client,
}

impl<'a> DescribeClient<'a> {
    /// Connects to the running `nrid`.
    pub(crate) fn connect(nrid: &'a NridLocation) -> Result<Self, CtlError> {
        let client = nrid::connect(nrid)?;
        let client = client.ok_or_else(|| CtlError::NotRunning(nrid.launcher.socket()))?;
        Ok(Self { nrid, client })
    }

    /// Returns the container or pod that a person means.
    pub(crate) fn object(&mut self, question: &Describe) -> Result<Description, CtlError> {
        match self.call(question)? {
            found @ (Description::Container(_) | Description::Pod(_)) => Ok(found),
            _ => Err(CtlError::UnexpectedReply),
        }
    }

    /// Returns all containers, oldest first.
    pub(crate) fn containers(&mut self) -> Result<Vec<ContainerSummary>, CtlError> {
        let mut all = pages(|after| match self.call(&Describe::Containers { after })? {
            Description::Containers(page) => Ok(page),
            _ => Err(CtlError::UnexpectedReply),
        })?;
        all.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    /// Returns all pods, oldest first.
    pub(crate) fn pods(&mut self) -> Result<Vec<PodSummary>, CtlError> {
        let mut all = pages(|after| match self.call(&Describe::Pods { after })? {
            Description::Pods(page) => Ok(page),
            _ => Err(CtlError::UnexpectedReply),
        })?;
        all.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.id.cmp(&b.id)));
        Ok(all)
    }

    fn call(&mut self, question: &Describe) -> Result<Description, CtlError> {
        let request = Request::Describe(question.clone());
        let reply = match self.client.call(&request, &[]) {
            // An nrid that ends closes the connection, and so does one that does not know the
            // request. The next nrid replies, the other one closes the next connection, too.
            Err(ClientError::Frame(FrameError::Closed)) => {
                *self = Self::connect(self.nrid)?;
                self.client.call(&request, &[])
            }
            reply => reply,
        };
        match reply {
            Ok(Reply::Description(encoded)) => {
                encoded.decode().map_err(|_| CtlError::UnexpectedReply)
            }
            Ok(Reply::Refused { message }) => Err(CtlError::Refused(message)),
            Ok(_) => Err(CtlError::UnexpectedReply),
            Err(ClientError::Frame(FrameError::Closed)) => Err(self.unknown_request()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the error for an `nrid` that closes connections after a request.
    fn unknown_request(&mut self) -> CtlError {
        let status = Self::connect(self.nrid).and_then(|next| nrid::status(&next.client));
        match status {
            Ok(status) => CtlError::UnknownRequest { version: status.version, pid: status.pid },
            Err(error) => error,
        }
    }
}

/// Requests pages until there are no more.
fn pages<T>(
    mut request: impl FnMut(Option<String>) -> Result<Page<T>, CtlError>,
) -> Result<Vec<T>, CtlError> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = request(after)?;
        all.extend(page.entries);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(all),
        }
    }
}
