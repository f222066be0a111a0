//! Files that are complete or absent: written under a temporary name, then renamed. Reading is limited, and to regular files:
//! opening a pipe waits for a writer, and a device may never end.
//! Other agents may write configurations of the network at the same time, so those are exchanged in one step, which returns
//! the previous file: if its content is not what was read, it is put back and the caller starts again.

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::fchown;
use sidecar_init::sys::exchange::exchange;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

/// The prefix of unfinished files. No attachment's name has it, and no runtime reads a file of such a name.
pub(super) const UNFINISHED: &str = ".sidecar-cni-";
/// The longest network configuration that is read or written. Real ones have a few kilobytes.
pub(super) const MAX_CONFIGURATION: u64 = 1024 * 1024;
/// The permissions of an installed program.
const MODE: u32 = 0o755;
const CHUNK_SIZE: u64 = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// It does, with the new content or the old one.
    Kept,
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

/// Opens a regular file for reading, without waiting for anything; `None` if nothing is there.
fn open(path: &Path, links: Links) -> Result<Option<File>, UnreadableFile> {
    let (found, flags) = match links {
        Links::Followed => (fs::metadata(path), 0),
        Links::Refused => (fs::symlink_metadata(path), O_NOFOLLOW),
    };
    let found = match present(found) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        // Links that lead to each other lead to no file.
        Err(error) if error.raw_os_error() == Some(ELOOP) => return Err(UnreadableFile::Special),
        Err(error) => return Err(error.into()),
    };
    // Opening a device may have an effect, so it is looked at before, and again once it is open: it may be another by then.
    if !found.is_file() {
        return Err(UnreadableFile::Special);
    }
    let file = present(File::options().read(true).custom_flags(O_NONBLOCK | flags).open(path))?;
    match &file {
        Some(file) if !file.metadata()?.is_file() => Err(UnreadableFile::Special),
        Some(_) | None => Ok(file),
    }
}

/// The content of a file; `None` if nothing is there.
pub(super) fn read(path: &Path, most: u64, links: Links) -> Result<Option<Vec<u8>>, UnreadableFile> {
    let Some(file) = open(path, links)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if is_longer(&content, most) { Err(UnreadableFile::Long(most)) } else { Ok(Some(content)) }
}

pub(super) fn is_longer(content: &[u8], most: u64) -> bool {
    u64::try_from(content.len()).is_ok_and(|length| length > most)
}

/// The result of an operation on a path; `None` if nothing is there.
pub(super) fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        other => other.map(Some),
    }
}

/// Removes a file, or whatever else has its name.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => fs::remove_dir_all(path),
        other => other,
    };
    present(removed).map(drop)
}

/// Writes a file, replacing whatever has its name. On failure the old file is in place; or the new one, not flushed.
pub(super) fn put(folder: &Path, name: &str, content: &[u8], durability: Durability) -> io::Result<()> {
    let place = folder.join(name);
    let aside = Aside::beside(&place);
    let mut file = aside.create()?;
    file.write_all(content)?;
    if durability == Durability::Kept {
        file.sync_all()?;
    }
    match fs::rename(&aside.0, &place) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => {
            remove(&place)?;
            fs::rename(&aside.0, &place)?;
        }
        other => other?,
    }
    if durability == Durability::Kept { sync(&place) } else { Ok(()) }
}

/// Creates a folder that only root can read, with its parents.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes unfinished files of killed calls that are at least so old.
pub(super) fn sweep(folder: &Path, age: Duration) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let is_abandoned = |found: Metadata| {
            // Anything but a file is not ours.
            found.is_file() && found.modified().is_ok_and(|at| at.elapsed().unwrap_or_default() >= age)
        };
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if is_unfinished && entry.metadata().is_ok_and(is_abandoned) {
            // Another sweep may have been faster.
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// Another program has written meanwhile, and its content was kept.
    Overtaken,
}

/// The content of a network configuration, by a link too.
pub(super) fn configuration(path: &Path) -> Result<Option<Vec<u8>>, UnreadableFile> {
    read(path, MAX_CONFIGURATION, Links::Followed)
}

fn holds(path: &Path, content: &[u8]) -> bool {
    configuration(path).is_ok_and(|found| found.as_deref() == Some(content))
}

/// Replaces a file with content `old` by `new`, with the same owner and permissions. On failure the file is as it was.
pub(super) fn replace(path: &Path, old: &[u8], new: &[u8]) -> io::Result<Put> {
    // A link is kept, and its target replaced.
    let Some(path) = present(fs::canonicalize(path))? else { return Ok(Put::Overtaken) };
    let aside = Aside::write(&path, new, &fs::metadata(&path)?)?;
    // `None` is content that could not be read. It is put back as it is.
    let (mut expected, mut placed, mut put) = (Some(old.to_vec()), Some(new.to_vec()), Put::Done);
    loop {
        match present(exchange(&aside.0, &path))? {
            None => return Ok(Put::Overtaken),
            // Where the file system can't exchange two, the content is compared as late as possible.
            Some(false) if !holds(&path, old) => return Ok(Put::Overtaken),
            Some(false) => {
                fs::rename(&aside.0, &path)?;
                return sync(&path).map(|()| Put::Done);
            }
            Some(true) => {}
        }
        let found = configuration(&aside.0).ok().flatten();
        if found == expected {
            return sync(&path).map(|()| put);
        }
        (expected, placed, put) = (placed, found, Put::Overtaken);
    }
}

pub(super) fn create(path: &Path, new: &[u8], like: &Path) -> io::Result<Put> {
    let Some(like) = present(fs::metadata(like))? else { return Ok(Put::Overtaken) };
    let aside = Aside::write(path, new, &like)?;
    match fs::hard_link(&aside.0, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(Put::Overtaken),
        other => other?,
    }
    sync(path).map(|()| Put::Done)
}

pub(super) fn remove_known(path: &Path, old: &[u8]) -> io::Result<Put> {
    let aside = Aside::beside(path);
    if present(fs::rename(path, &aside.0))?.is_none() {
        return Ok(Put::Done);
    }
    let is_known = holds(&aside.0, old);
    let put = if is_known { Put::Done } else { Put::Overtaken };
    // A file that has come since is newer. A folder has one name only.
    if !is_known && fs::hard_link(&aside.0, path).is_err_and(|error| error.kind() != ErrorKind::AlreadyExists)
    {
        fs::rename(&aside.0, path)?;
    }
    sync(path).map(|()| put)
}

type FileIdentity = ([u64; 3], [i64; 4], u32);
pub(super) type CopiedProgram = (FileIdentity, FileIdentity);

fn identity(found: io::Result<Metadata>) -> Option<FileIdentity> {
    let found = found.ok().filter(Metadata::is_file)?;
    let times = [found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()];
    Some(([found.dev(), found.ino(), found.size()], times, found.mode()))
}

/// Copies a program, unless the same is there. Returns whether it was copied. Two files that were `seen` to be the same are
/// not read again. On failure the old program is in place.
pub(super) fn copy_program(from: &Path, to: &Path, seen: &mut Option<CopiedProgram>) -> io::Result<bool> {
    let now = identity(fs::metadata(from)).zip(identity(fs::symlink_metadata(to)));
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
    if let Ok(Some(there)) = open(to, Links::Refused)
        && there.metadata()?.mode() & 0o7777 == MODE
        && are_equal(&from, &there).is_ok_and(|are_equal| are_equal)
    {
        return Ok(false);
    }
    from.rewind()?;
    let aside = Aside::beside(to);
    let mut file = aside.create()?;
    io::copy(&mut from, &mut file)?;
    file.set_permissions(Permissions::from_mode(MODE))?;
    file.sync_all()?;
    // A program that is open for writing can't be started.
    drop(file);
    fs::rename(&aside.0, to)?;
    sync(to).map(|()| true)
}

/// Compares piece by piece: whole programs in memory would be most of what an installer takes of a node.
fn are_equal(one: &File, other: &File) -> io::Result<bool> {
    let piece = |file: &File| {
        let mut piece = Vec::new();
        file.take(CHUNK_SIZE).read_to_end(&mut piece).map(|_| piece)
    };
    loop {
        let (here, there) = (piece(one)?, piece(other)?);
        if here.is_empty() || here != there {
            return Ok(here == there);
        }
    }
}

/// Syncs the folder, so that a rename survives a failure of the machine.
fn sync(path: &Path) -> io::Result<()> {
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// A temporary file next to another, removed on drop.
struct Aside(PathBuf);

impl Aside {
    fn beside(path: &Path) -> Self {
        let nanos = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self(path.with_file_name(format!("{UNFINISHED}{}-{nanos}", process::id())))
    }

    fn create(&self) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(&self.0)
    }

    fn write(path: &Path, content: &[u8], like: &Metadata) -> io::Result<Self> {
        let aside = Self::beside(path);
        let mut file = aside.create()?;
        file.write_all(content)?;
        let now = file.metadata()?;
        if (now.uid(), now.gid()) != (like.uid(), like.gid()) {
            fchown(&file, Some(like.uid().into()), Some(like.gid().into()))?;
        }
        file.set_permissions(Permissions::from_mode(like.mode() & 0o7777))?;
        file.sync_all()?;
        Ok(aside)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Fails where it was renamed. The next run sweeps what is left, unless a link has led to another folder.
        let _ = fs::remove_file(&self.0);
    }
}
