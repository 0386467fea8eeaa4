//! What happened in histories.

/// How often something happened: a test of invariants that never get into play shows nothing.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) histories: u64,
    pub(crate) events: u64,
    pub(crate) exclusive: u64,
    pub(crate) degraded: u64,
    pub(crate) refused: u64,
    pub(crate) pinned: u64,
    pub(crate) moved: u64,
    pub(crate) restarts: u64,
    pub(crate) over_quota: u64,
    pub(crate) forged: u64,
    pub(crate) away: u64,
    pub(crate) stale: u64,
    pub(crate) confirmed: u64,
    pub(crate) borrowed: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: &Self) {
        self.histories += 1;
        self.events += other.events;
        self.exclusive += other.exclusive;
        self.degraded += other.degraded;
        self.refused += other.refused;
        self.pinned += other.pinned;
        self.moved += other.moved;
        self.restarts += other.restarts;
        self.over_quota += other.over_quota;
        self.forged += other.forged;
        self.away += other.away;
        self.stale += other.stale;
        self.confirmed += other.confirmed;
        self.borrowed += other.borrowed;
    }

    /// Returns what happened least often.
    pub(crate) fn rarest(&self) -> (&'static str, u64) {
        let counts = [
            ("exclusive CPUs", self.exclusive),
            ("a container that had to share", self.degraded),
            ("a refusal", self.refused),
            ("CPUs of the engine", self.pinned),
            ("a changed container", self.moved),
            ("a restart", self.restarts),
            ("a refusal by a quota", self.over_quota),
            ("a forged container", self.forged),
            ("an update without the plugin", self.away),
            ("an update that failed unseen", self.stale),
            ("CPUs that were given up", self.confirmed),
            ("exclusive CPUs that were lent", self.borrowed),
        ];
        counts.into_iter().min_by_key(|(_, count)| *count).unwrap()
    }
}
