//! Atomic replacement of files that other agents may write at the same time.
//!
//! A program that reads a file, decides and renames loses what another has written in between. So files are exchanged in one
//! step, which returns the previous file: if its content is not what was read, it is put back and the caller starts again. An
//! agent that has the file open writes to the one that is put back.

use super::folder::content;
use crate::cni::files::{self, Links};
use nix::unistd::fchown;
use sidecar_init::sys::exchange::exchange;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, ErrorKind, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

/// The prefix of unfinished files. They end with nothing that a runtime reads.
pub(super) const UNFINISHED: &str = ".sidecar-cni-";

const CHUNK_SIZE: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// Another program has written meanwhile, and its content was kept.
    Overtaken,
}

/// Replaces a file with content `old` by `new`, with the same owner and permissions.
///
/// # Errors
/// When the folder can't be written. The file is as it was then.
pub(super) fn replace(path: &Path, old: &[u8], new: &[u8]) -> io::Result<Put> {
    // A link is kept, and its target replaced.
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Put::Overtaken),
        other => other?,
    };
    let aside = Aside::write(&path, new, &fs::metadata(&path)?)?;
    // `None` is content that could not be read. It is put back as it is.
    let (mut expected, mut placed, mut put) = (Some(old.to_vec()), Some(new.to_vec()), Put::Done);
    loop {
        match exchange(&aside.0, &path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Put::Overtaken),
            Ok(false) => return aside.rename(&path, old),
            other => drop(other?),
        }
        let found = content(&aside.0).ok().flatten();
        if found == expected {
            sync(&path)?;
            return Ok(put);
        }
        (expected, placed, put) = (placed, found, Put::Overtaken);
    }
}

/// Creates a file with the owner and the permissions of another.
pub(super) fn create(path: &Path, new: &[u8], like: &Path) -> io::Result<Put> {
    let like = match fs::metadata(like) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Put::Overtaken),
        other => other?,
    };
    let aside = Aside::write(path, new, &like)?;
    match fs::hard_link(&aside.0, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Put::Overtaken),
        other => other?,
    }
    sync(path)?;
    Ok(Put::Done)
}

/// Removes a file with content `old`.
pub(super) fn remove(path: &Path, old: &[u8]) -> io::Result<Put> {
    let aside = Aside::beside(path);
    match fs::rename(path, &aside.0) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Put::Done),
        other => other?,
    }
    let found = content(&aside.0).ok().flatten();
    let put = if found.as_deref() == Some(old) { Put::Done } else { Put::Overtaken };
    if put == Put::Overtaken {
        match fs::hard_link(&aside.0, path) {
            // What has come since is newer.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            // A folder has one name only.
            Err(_) => fs::rename(&aside.0, path)?,
            Ok(()) => {}
        }
    }
    sync(path)?;
    Ok(put)
}

/// The identity of a file: writing or replacing it changes one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity([u64; 3], [i64; 4], u32);

impl FileIdentity {
    fn of(found: io::Result<Metadata>) -> Option<Self> {
        let found = found.ok().filter(Metadata::is_file)?;
        let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
        Some(Self([found.dev(), found.ino(), found.size()], times, found.mode()))
    }
}

pub(super) type CopiedProgram = (FileIdentity, FileIdentity);

/// Copies a program, unless the same is there. Returns whether it was copied. Two files that were `seen` to be the same are not
/// read again.
///
/// # Errors
/// When the folder can't be written. The old program is in place then.
pub(super) fn copy_program(from: &Path, to: &Path, seen: &mut Option<CopiedProgram>) -> io::Result<bool> {
    let now = FileIdentity::of(fs::metadata(from)).zip(FileIdentity::of(fs::symlink_metadata(to)));
    if now.is_some() && now == *seen {
        return Ok(false);
    }
    let is_new = copied(from, to)?;
    // What was just put in place may be written by others before it could be looked at, so the next look reads it.
    *seen = if is_new { None } else { now };
    Ok(is_new)
}

fn copied(from: &Path, to: &Path) -> io::Result<bool> {
    let mut from = File::open(from)?;
    let mode = Permissions::from_mode(0o755);
    let is_there =
        fs::symlink_metadata(to).is_ok_and(|there| there.is_file() && there.mode() & 0o7777 == 0o755);
    let is_same = || are_equal(&from, &files::open(to, Links::Refused).ok()?).ok();
    if is_there && is_same() == Some(true) {
        return Ok(false);
    }
    from.rewind()?;
    let aside = Aside::beside(to);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside.0)?;
    io::copy(&mut from, &mut file)?;
    file.set_permissions(mode)?;
    file.sync_all()?;
    // A program that is open for writing can't be started.
    drop(file);
    fs::rename(&aside.0, to)?;
    sync(to)?;
    Ok(true)
}

/// Compares piece by piece: whole programs in memory would be most of what an installer takes of a node.
fn are_equal(one: &File, other: &File) -> io::Result<bool> {
    let (mut one, mut other) =
        (BufReader::with_capacity(CHUNK_SIZE, one), BufReader::with_capacity(CHUNK_SIZE, other));
    loop {
        let (here, there) = (one.fill_buf()?, other.fill_buf()?);
        let length = here.len().min(there.len());
        if here[..length] != there[..length] {
            return Ok(false);
        }
        if length == 0 {
            return Ok(here.len() == there.len());
        }
        one.consume(length);
        other.consume(length);
    }
}

/// Removes unfinished files of killed runs. The caller holds the lock of the folder.
pub(super) fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        // Anything else is not ours.
        if is_unfinished && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Syncs the folder, so that a rename survives a failure of the machine.
fn sync(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// A temporary file next to another, removed on drop.
struct Aside(PathBuf);

impl Aside {
    fn beside(path: &Path) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Self(path.with_file_name(format!("{UNFINISHED}{}-{count}", process::id())))
    }

    fn write(path: &Path, content: &[u8], like: &Metadata) -> io::Result<Self> {
        let aside = Self::beside(path);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside.0)?;
        file.write_all(content)?;
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid().into()), Some(like.gid().into()))?;
        }
        file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
        file.sync_all()?;
        Ok(aside)
    }

    /// Replaces a file where the file system can't exchange two: compares it as late as possible.
    fn rename(&self, path: &Path, expected: &[u8]) -> io::Result<Put> {
        if content(path).ok().flatten().as_deref() != Some(expected) {
            return Ok(Put::Overtaken);
        }
        fs::rename(&self.0, path)?;
        sync(path)?;
        Ok(Put::Done)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Fails where it was renamed. The next run sweeps what is left, unless a link has led to another folder.
        let _ = fs::remove_file(&self.0);
    }
}
