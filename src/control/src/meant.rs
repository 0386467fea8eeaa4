//! What a person means by the name of a container or pod: an id, else a name, else a prefix of an
//! id. `nrid` decides so between those that it has records of, and `nrictl` between those that only
//! the audit log or an engine has.

/// Maximum number of ids in an error.
const MAX_IDS: usize = 10;

/// How a text names a container or pod; an earlier one is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Match {
    /// It is an id.
    Id,
    /// It is the name.
    Name,
    /// An id begins with it.
    Prefix,
}

impl Match {
    /// Returns how `wanted` names the container or pod with these ids and this name; `None` if it
    /// does not. An empty text names none.
    pub fn of(wanted: &str, ids: &[&str], name: &str) -> Option<Self> {
        match () {
            () if wanted.is_empty() => None,
            () if ids.contains(&wanted) => Some(Self::Id),
            () if name == wanted => Some(Self::Name),
            () if ids.iter().any(|id| id.starts_with(wanted)) => Some(Self::Prefix),
            () => None,
        }
    }

    /// Returns the best match, and what matches so.
    pub fn best<T>(matches: impl Iterator<Item = (Self, T)>) -> (Option<Self>, Vec<T>) {
        let mut found: Vec<_> = matches.collect();
        let best = found.iter().map(|(rank, _)| *rank).min();
        found.retain(|(rank, _)| Some(*rank) == best);
        (best, found.into_iter().map(|(_, found)| found).collect())
    }
}

/// Error: a text names several containers or pods equally well.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("several {kind} are meant by {wanted}, use an id: {ids}")]
pub struct Ambiguous {
    kind: &'static str,
    wanted: String,
    ids: String,
}

impl Ambiguous {
    /// Returns the error for `wanted`, which names what has these ids: `kind` is `containers`,
    /// `pods`, or both.
    pub fn new<T: AsRef<str>>(kind: &'static str, wanted: &str, ids: &[T]) -> Self {
        let more = if ids.len() > MAX_IDS { ", …" } else { "" };
        let ids: Vec<&str> = ids.iter().take(MAX_IDS).map(AsRef::as_ref).collect();
        Self { kind, wanted: wanted.to_owned(), ids: ids.join(", ") + more }
    }

    /// Whether `nrid` has refused a request with this error.
    pub fn is_message(message: &str) -> bool {
        message.starts_with("several ")
    }

    /// Whether the ids in a message of this error begin with `wanted`: then no container has that
    /// name.
    pub fn is_of_prefix(message: &str, wanted: &str) -> bool {
        let ids = message.rsplit_once(": ").map_or("", |(_, ids)| ids);
        ids.split(", ").all(|id| id.starts_with(wanted) || id == "…")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_precedes_a_name_and_a_name_a_prefix() {
        let all = [("web", "db"), ("c1", "web"), ("c2", "app"), ("c3", "app"), ("web-2", "")];
        for (wanted, rank, expected) in [
            ("web", Some(Match::Id), &["web"][..]),
            ("app", Some(Match::Name), &["c2", "c3"]),
            ("we", Some(Match::Prefix), &["web", "web-2"]),
            ("c", Some(Match::Prefix), &["c1", "c2", "c3"]),
            ("x", None, &[]),
            ("", None, &[]),
        ] {
            let of = |(id, name)| Some((Match::of(wanted, &[id], name)?, id));
            assert_eq!(Match::best(all.into_iter().filter_map(of)), (rank, expected.to_vec()));
        }
        assert_eq!(Match::of("c-7", &["c", "c-7"], ""), Some(Match::Id));
    }

    #[test]
    fn an_ambiguous_name_is_an_error_with_the_first_ids() {
        let error = Ambiguous::new("containers", "web", &["c1", "c2"]).to_string();
        assert_eq!(error, "several containers are meant by web, use an id: c1, c2");
        assert!(Ambiguous::is_message(&error));
        assert!(!Ambiguous::is_of_prefix(&error, "web"));
        let error = Ambiguous::new("containers", "c", &["c1", "c2"]).to_string();
        assert!(Ambiguous::is_of_prefix(&error, "c"));
        let many: Vec<String> = (0..11).map(|n| n.to_string()).collect();
        let error = Ambiguous::new("pods", "p", &many).to_string();
        assert!(error.ends_with(": 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …"), "{error}");
    }
}
