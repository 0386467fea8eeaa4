//! Checks that records can be written to the state directory, and that others cannot change it:
//! otherwise no container is created.

use super::{
    finding::DoctorReport,
    kinds::{STATE_DIR_NOT_WRITABLE, STATE_DIR_UNTRUSTED, STATE_DIR_WRITABLE},
};
use crate::nrid_location::NridLocation;
use nri_control::Status;
use nri_files::RECORDS_DIR;
use nri_host::check_writable;
use nri_trust::Owners;
use rustix::process::geteuid;
use std::{fs, io::ErrorKind, os::unix::fs::MetadataExt, path::Path};

/// Checks the state directory: as `nrid` finds it, and by writing to it from this process, since an
/// `nrid` of another version may not say what it finds.
pub(super) fn state_dir(report: &mut DoctorReport, nrid: &NridLocation, status: Option<&Status>) {
    let dir = &nrid.launcher.state_dir;
    let shown = dir.display();
    // An nrid that runs has checked it.
    if let Some(why) = untrusted(dir).filter(|_| status.is_none()) {
        report.add(STATE_DIR_UNTRUSTED, why);
        report.advise("nrid does not start, and no container can be created, until that is so.");
        return;
    }
    let mut advice = format!(
        "No container can be created until there is room: see `df {shown}` and `df -i {shown}`. \
         Changes of containers that run are written as soon as there is room."
    );
    let error = match status.and_then(|status| status.state_dir_error.clone()) {
        Some(error) => error,
        None => {
            // The directory of records exists once nrid has run.
            let records = dir.join(RECORDS_DIR);
            let Some(dir) = [&records, dir].into_iter().find(|dir| dir.exists()) else { return };
            match check_writable(dir) {
                Ok(()) => return report.add(STATE_DIR_WRITABLE, shown.to_string()),
                // The directory is private to root.
                Err(e) if e.kind() == ErrorKind::PermissionDenied && !geteuid().is_root() => return,
                Err(e) => {
                    let is_full =
                        matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
                    if !is_full {
                        advice = "No container can be created until root can write there.".into();
                    }
                    format!("{}: {e}", dir.display())
                }
            }
        }
    };
    report.add(STATE_DIR_NOT_WRITABLE, format!("nrid cannot write a record: {error}"));
    report.advise(advice);
}

/// Returns why a state directory that exists would not be used, if it would not.
fn untrusted(dir: &Path) -> Option<String> {
    let meta = fs::symlink_metadata(dir).ok()?;
    let uid = geteuid().as_raw();
    if !meta.is_dir() || meta.uid() != uid || meta.mode() & 0o022 != 0 {
        let shown = dir.display();
        return Some(format!(
            "{shown} must be a directory of user {uid} that no other user can write to"
        ));
    }
    Owners::of_this_process().check(&std::path::absolute(dir).ok()?).err().map(|e| e.to_string())
}
