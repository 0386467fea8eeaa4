//! The request to `nrid` before a verb: the message `begin` of the control protocol. `nri-control`
//! reads it.

use crate::{
    args::verbs::Verb,
    json::{ByteSink, list, text},
};

/// Version of the messages of the control protocol.
pub const PROTOCOL: u32 = 1;

/// Begin of every message of this program.
const HEAD: &str =
    concat!(r#"{"protocol":1,"version":""#, env!("CARGO_PKG_VERSION"), r#"","message":{"begin":{"#);

/// A verb that is about to run, as `Begin` of `nri-control` describes it.
#[derive(Debug, Clone)]
pub struct BeginRequest<'a, G, A, E> {
    /// The verb.
    pub verb: Verb,
    /// Container id.
    pub id: &'a str,
    /// The real runtime, absolute.
    pub runtime: &'a [u8],
    /// `--root`, absolute.
    pub root: Option<&'a [u8]>,
    /// Options before the verb, without our own.
    pub globals: G,
    /// Arguments after the verb.
    pub arguments: A,
    /// Bundle directory, absolute, if the verb has one.
    pub bundle: Option<&'a [u8]>,
    /// Path of the OCI config in the bundle, or absolute, if the verb has a bundle.
    pub config: Option<&'a [u8]>,
    /// Working directory.
    pub cwd: &'a [u8],
    /// Entries of the environment.
    pub environment: E,
    /// `update`: content of the file of `--resources`.
    pub resources: Option<&'a str>,
    /// `--detach` or `--force`
    pub flag: bool,
    /// The hook program, absolute.
    pub hook: Option<&'a [u8]>,
}

impl<'t, G, A, E> BeginRequest<'_, G, A, E>
where
    G: Iterator<Item = &'t [u8]>,
    A: Iterator<Item = &'t [u8]>,
    E: Iterator<Item = &'t [u8]>,
{
    /// Writes the message. Returns `None` if it does not fit.
    pub fn write(self, sink: &mut impl ByteSink) -> Option<()> {
        let texts = [
            ("verb", Some(self.verb.name().as_bytes())),
            ("id", Some(self.id.as_bytes())),
            ("runtime", Some(self.runtime)),
            ("root", self.root),
            ("bundle", self.bundle),
            ("config", self.config),
            ("cwd", Some(self.cwd)),
            ("resources", self.resources.map(str::as_bytes)),
            ("hook", self.hook),
        ];
        sink.put(HEAD.as_bytes())?;
        for (name, value) in texts {
            member(sink, name)?;
            match value {
                Some(value) => text(sink, value)?,
                None => sink.put(b"null")?,
            }
            sink.put(b",")?;
        }
        for (name, value) in [("flag", self.flag), ("follow", self.verb.is_followed())] {
            member(sink, name)?;
            sink.put(if value { b"true," } else { b"false," })?;
        }
        member(sink, "globals")?;
        list(sink, self.globals)?;
        sink.put(b",")?;
        member(sink, "arguments")?;
        list(sink, self.arguments)?;
        sink.put(b",")?;
        member(sink, "environment")?;
        list(sink, self.environment)?;
        sink.put(b"}}}")
    }
}

fn member(sink: &mut impl ByteSink, name: &str) -> Option<()> {
    text(sink, name.as_bytes())?;
    sink.put(b":")
}
