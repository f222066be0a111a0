//! Files that are complete or absent: written under a temporary name, then renamed. Reading is limited, and to regular files:
//! opening a pipe waits for a writer, and a device may never end.

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::time::{Duration, SystemTime};
use std::{path::Path, process};

/// The prefix of unfinished files. No attachment's name has it: ids start with a letter or digit.
const UNFINISHED: &str = ".new-";
/// The age after which an unfinished file is abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// It does, with the new content or the old one.
    Kept,
    /// It may be torn then, which its readers tolerate.
    MayBeLost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Followed,
    Refused,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum UnreadableFile {
    #[error("is not a regular file")]
    Special,
    #[error("has more than {0} bytes")]
    Long(u64),
    #[error("can't be read: {0}")]
    Io(#[from] io::Error),
}

impl UnreadableFile {
    pub(super) fn is_absence(&self) -> bool {
        let absent = [ErrorKind::NotFound, ErrorKind::NotADirectory];
        matches!(self, Self::Io(error) if absent.contains(&error.kind()))
    }
}

/// Opens a regular file for reading, without waiting for anything.
pub(super) fn open(path: &Path, links: Links) -> Result<File, UnreadableFile> {
    let (found, flags) = match links {
        Links::Followed => (fs::metadata(path), 0),
        Links::Refused => (fs::symlink_metadata(path), O_NOFOLLOW),
    };
    let found = match found {
        // Links that lead to each other lead to no file.
        Err(error) if error.raw_os_error() == Some(ELOOP) => return Err(UnreadableFile::Special),
        other => other?,
    };
    // Opening a device may have an effect, so it is looked at before, and again once it is open: it may be another by then.
    if !found.is_file() {
        return Err(UnreadableFile::Special);
    }
    let file = File::options().read(true).custom_flags(O_NONBLOCK | flags).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(UnreadableFile::Special) }
}

pub(super) fn read(path: &Path, most: u64, links: Links) -> Result<Vec<u8>, UnreadableFile> {
    let file = open(path, links)?;
    if file.metadata()?.len() > most {
        return Err(UnreadableFile::Long(most));
    }
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if u64::try_from(content.len()).is_ok_and(|length| length <= most) {
        Ok(content)
    } else {
        Err(UnreadableFile::Long(most))
    }
}

/// Removes a file, or whatever else has its name. Returns whether anything was there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => fs::remove_dir_all(path),
        other => other,
    };
    match removed {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Writes a file, replacing whatever has its name.
///
/// # Errors
/// When the folder can't be written. The old file is in place then; or the new one, where only flushing the folder to disk
/// has failed.
pub(super) fn put(folder: &Path, name: &str, content: &[u8], durability: Durability) -> io::Result<()> {
    let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    let aside = folder.join(format!("{UNFINISHED}{}-{nanos}", process::id()));
    let written =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside).and_then(|mut file| {
            file.write_all(content)?;
            if durability == Durability::Kept { file.sync_all() } else { Ok(()) }
        });
    let place = folder.join(name);
    let placed = written.and_then(|()| match fs::rename(&aside, &place) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            remove(&place)?;
            fs::rename(&aside, &place)
        }
        other => other,
    });
    if let Err(error) = placed {
        // It would be swept later anyway.
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    if durability == Durability::Kept { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Creates a folder that only root can read, with its parents.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes unfinished files of killed calls.
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
