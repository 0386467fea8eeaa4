//! Cache of the host's capabilities. Reading them takes longer the more mounts and control groups
//! there are, so they are not read for each container.

use nri_spec::capability::HostCapabilities;
use parking_lot::Mutex;

/// The capabilities of this host as last read.
#[derive(Debug, Default)]
pub struct KnownHost(Mutex<Option<HostCapabilities>>);

impl KnownHost {
    /// Performs `check` on the known capabilities. If none are known, or the check fails, reads the
    /// capabilities again, and performs the check on them.
    pub(super) fn check<E>(
        &self,
        read: impl FnOnce() -> HostCapabilities,
        check: impl Fn(&HostCapabilities) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut known = self.0.lock();
        if known.as_ref().is_some_and(|host| check(host).is_ok()) {
            return Ok(());
        }
        let mut host = read();
        let result = check(&host);
        // Assumed files are not cached. A later check that needs them reads the host again, since
        // by then a cgroup may have the I/O controller, so that the files can be looked up.
        for file in &host.assumed_files {
            host.files.remove(file);
        }
        *known = Some(host);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_again_only_if_a_check_fails() {
        let known = KnownHost::default();
        let reads = std::cell::Cell::new(0);
        let has_resctrl = std::cell::Cell::new(false);
        let read = || {
            reads.set(reads.get() + 1);
            HostCapabilities { resctrl: has_resctrl.get(), ..HostCapabilities::default() }
        };
        let needs_resctrl = |host: &HostCapabilities| host.resctrl.then_some(()).ok_or(());
        assert_eq!(known.check(read, |_| Ok::<_, ()>(())), Ok(()));
        assert_eq!(known.check(read, |_| Ok::<_, ()>(())), Ok(()));
        assert_eq!(reads.get(), 1);
        assert_eq!(known.check(read, needs_resctrl), Err(()));
        has_resctrl.set(true);
        assert_eq!(known.check(read, needs_resctrl), Ok(()));
        assert_eq!(known.check(read, needs_resctrl), Ok(()));
        assert_eq!(reads.get(), 3, "reads: the first check, and two checks that failed");
    }

    #[test]
    fn files_that_are_assumed_to_exist_are_looked_up_again() {
        let known = KnownHost::default();
        let (reads, is_assumed) = (std::cell::Cell::new(0), std::cell::Cell::new(true));
        let read = || {
            reads.set(reads.get() + 1);
            let files: std::collections::BTreeSet<_> =
                is_assumed.get().then(|| "io.weight".to_owned()).into_iter().collect();
            HostCapabilities { assumed_files: files.clone(), files, ..HostCapabilities::default() }
        };
        let needs_file =
            |host: &HostCapabilities| host.files.contains("io.weight").then_some(()).ok_or(());
        assert_eq!(known.check(read, needs_file), Ok(()));
        assert_eq!(known.check(read, |_| Ok::<_, ()>(())), Ok(()));
        assert_eq!(reads.get(), 1);
        is_assumed.set(false);
        assert_eq!(known.check(read, needs_file), Err(()));
    }
}
