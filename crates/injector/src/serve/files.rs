//! Files that are read as one: all as they are at the same moment, or not at all.
//!
//! They may be written at any time: by Kubernetes, which exchanges a whole folder of a ConfigMap or Secret at once, or by
//! people, who write one after the other.

use std::{
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// How often they are read again when they change meanwhile.
const ATTEMPTS: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct WatchedFile {
    pub(super) path: PathBuf,
    /// Whether its absence means something; else it is an error.
    pub(super) optional: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Files(pub(super) Vec<WatchedFile>);

/// By what a change is seen: for each file its device, number, size and times; `None` where the file does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamps(Vec<Option<[u64; 7]>>);

/// What was read; the texts in the order of the files.
#[derive(Clone, Debug)]
pub(super) struct FileContents {
    pub(super) texts: Vec<Option<Vec<u8>>>,
    /// Equal for equal texts.
    pub(super) digest: u64,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum FileReadError {
    #[error("{}: can't be read", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("{} and the files beside it changed while they were read, {ATTEMPTS} times", .0.display())]
    ChangedMeanwhile(PathBuf),
}

impl Files {
    pub(super) fn stamps(&self) -> FileStamps {
        let stamp = |path: &Path| {
            let file = fs::metadata(path).ok()?;
            let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
            let [a, b, c, d] = times.map(i64::cast_unsigned);
            Some([file.dev(), file.ino(), file.size(), a, b, c, d])
        };
        FileStamps(self.0.iter().map(|file| stamp(&file.path)).collect())
    }

    /// Reads all of them, as they are at one moment.
    pub(super) fn read(&self) -> Result<FileContents, FileReadError> {
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            let before = self.stamps();
            let texts: Result<Vec<_>, _> = self.0.iter().map(read).collect();
            if self.stamps() != before {
                continue;
            }
            match texts {
                Ok(texts) => {
                    let mut hasher = DefaultHasher::new();
                    texts.hash(&mut hasher);
                    return Ok(FileContents { texts, digest: hasher.finish() });
                }
                Err(unreadable) => failed = Some(unreadable),
            }
        }
        let first = || self.0.first().map(|file| file.path.clone()).unwrap_or_default();
        Err(failed.unwrap_or_else(|| FileReadError::ChangedMeanwhile(first())))
    }
}

fn read(file: &WatchedFile) -> Result<Option<Vec<u8>>, FileReadError> {
    match fs::read(&file.path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if file.optional && error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(FileReadError::File { path: file.path.clone(), source }),
    }
}
