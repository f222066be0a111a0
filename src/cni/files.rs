//! Files that are complete or absent: written under a temporary name, then renamed. Only regular files of limited size are read:
//! opening a pipe waits for a writer, and a device may never end.
//!
//! Other agents may write network configurations at the same time, so files are exchanged in one step, which returns the previous
//! file. If its content is unexpected, that file is put back, and the caller starts again.

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use nix::unistd::fchown;
use sidecar_init::sys::exchange::exchange;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process;
use std::time::{Duration, SystemTime};

/// Prefix of unfinished files' names. No attachment's name has this prefix, and no runtime reads such files.
pub(super) const UNFINISHED: &str = ".sidecar-cni-";
/// Size limit of a network configuration. Real ones have a few kilobytes.
pub(super) const MAX_CONFIGURATION: u64 = 1024 * 1024;
const MODE: u32 = 0o755;
const CHUNK_SIZE: u64 = 1024 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// Survives with the old or the new content.
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

fn open(path: &Path, links: Links) -> Result<Option<File>, UnreadableFile> {
    let (found, flags) = match links {
        Links::Followed => (fs::metadata(path), 0),
        Links::Refused => (fs::symlink_metadata(path), O_NOFOLLOW),
    };
    let found = match present(found) {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        Err(error) if error.raw_os_error() == Some(ELOOP) => return Err(UnreadableFile::Special),
        Err(error) => return Err(error.into()),
    };
    // Opening a device may have an effect, so the type is checked before and after opening: another file may have replaced it.
    if !found.is_file() {
        return Err(UnreadableFile::Special);
    }
    let file = present(File::options().read(true).custom_flags(O_NONBLOCK | flags).open(path))?;
    match &file {
        Some(file) if !file.metadata()?.is_file() => Err(UnreadableFile::Special),
        Some(_) | None => Ok(file),
    }
}

pub(super) fn read(path: &Path, most: u64, links: Links) -> Result<Option<Vec<u8>>, UnreadableFile> {
    let Some(file) = open(path, links)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(most + 1).read_to_end(&mut content)?;
    if is_longer(&content, most) { Err(UnreadableFile::Long(most)) } else { Ok(Some(content)) }
}

pub(super) fn is_longer(content: &[u8], most: u64) -> bool {
    u64::try_from(content.len()).is_ok_and(|length| length > most)
}

pub(super) fn present<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        other => other.map(Some),
    }
}

pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::IsADirectory => fs::remove_dir_all(path),
        other => other,
    };
    present(removed).map(drop)
}

/// Writes a file, replacing any previous one. On failure, the old file remains, or an unflushed new one.
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

pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Removes killed calls' unfinished files of at least this age.
pub(super) fn sweep(folder: &Path, age: Duration) -> io::Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        let is_abandoned = |found: Metadata| {
            found.is_file() && found.modified().is_ok_and(|at| at.elapsed().unwrap_or_default() >= age)
        };
        let is_unfinished = entry.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
        if is_unfinished && entry.metadata().is_ok_and(is_abandoned) {
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

pub(super) fn configuration(path: &Path) -> Result<Option<Vec<u8>>, UnreadableFile> {
    read(path, MAX_CONFIGURATION, Links::Followed)
}

fn holds(path: &Path, content: &[u8]) -> bool {
    configuration(path).is_ok_and(|found| found.as_deref() == Some(content))
}

/// Replaces a file's content `old` with `new`, keeping owner and permissions. On failure the file is unchanged.
pub(super) fn replace(path: &Path, old: &[u8], new: &[u8]) -> io::Result<Put> {
    // A link is kept, and its target replaced.
    let Some(path) = present(fs::canonicalize(path))? else { return Ok(Put::Overtaken) };
    let aside = Aside::write(&path, new, &fs::metadata(&path)?)?;
    // `None` is unreadable content, which is put back unchanged.
    let (mut expected, mut placed, mut put) = (Some(old.to_vec()), Some(new.to_vec()), Put::Done);
    loop {
        match present(exchange(&aside.0, &path))? {
            None => return Ok(Put::Overtaken),
            // If the file system can't exchange files, the content is compared as late as possible.
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
    // A file created meanwhile is newer. Folders can't be hard-linked.
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

/// Copies a program unless the target is identical (`seen` saves reading both again); true if copied.
pub(super) fn copy_program(from: &Path, to: &Path, seen: &mut Option<CopiedProgram>) -> io::Result<bool> {
    let now = identity(fs::metadata(from)).zip(identity(fs::symlink_metadata(to)));
    if now.is_some() && now == *seen {
        return Ok(false);
    }
    let is_new = copied(from, to)?;
    // Other programs may overwrite a new copy before any check, so the next check reads it.
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

/// Compares piece by piece: whole programs would be most of an installer's memory use.
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
        // Fails after a rename. The next run sweeps leftovers, except in another folder reached through a link.
        let _ = fs::remove_file(&self.0);
    }
}
