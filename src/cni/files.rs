//! Files that are whole or not there: written aside, then put in place.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
    process,
    time::{Duration, SystemTime},
};

/// What the names of unfinished files start with. No attachment's does: ids start with a letter or digit.
const UNFINISHED: &str = ".new-";
/// After this time, whoever wrote an unfinished file is gone.
const ABANDONED: Duration = Duration::from_secs(3600);

/// Whether a file outlives a failure of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// It does, in this state or in the one before.
    Kept,
    /// It may be torn then, and can be done without.
    MayBeLost,
}

/// Puts a file in place, in the folder's stead of whatever had its name.
///
/// # Errors
/// When the folder can't be written. The old file is in place then.
pub(super) fn put(folder: &Path, name: &str, content: &[u8], durability: Durability) -> io::Result<()> {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let aside = folder.join(format!("{UNFINISHED}{}-{nanos}", process::id()));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).and_then(|mut file| {
            file.write_all(content)?;
            if durability == Durability::Kept { file.sync_all() } else { Ok(()) }
        });
    if let Err(error) = written.and_then(|()| fs::rename(&aside, folder.join(name))) {
        // It would be swept later anyway.
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    if durability == Durability::Kept { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Makes a folder of root's, with those above it.
///
/// # Errors
/// When it can't be made.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes what killed calls have left unfinished.
///
/// # Errors
/// When the folder can't be read.
pub(super) fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let age =
            entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|at| at.elapsed().ok());
        let is_abandoned = age.is_some_and(|age| age > ABANDONED);
        if is_abandoned && entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // Another sweep may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}
