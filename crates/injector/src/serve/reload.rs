//! Files that are read again when they change, while the server serves.
//!
//! Several files are read as one: all as they are at the same moment, or not at all. They may be written at any time: by Kubernetes,
//! which exchanges a whole folder of a ConfigMap or Secret at once, or by people, who write one after the other.
//!
//! They are polled ten times a second rather than watched by inotify: polling notices a volume that the kubelet exchanges, a
//! bind mount and a network file system alike. Where contents can't be read or parsed, those before stay in use.

use super::metrics::Reloads;
use cluster::error::describe;
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

/// A change is read at the poll after the one that notices it, so that several which come together are one.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// After a change, files are read at this many polls even if their stamps are equal: their times are no finer than the
/// kernel's clock.
const UNTRUSTED_POLLS: u8 = 10;

/// Puts contents into use; an error has changed nothing.
pub(super) type Apply = Box<dyn Fn(&FileContents) -> Result<(), Box<dyn Error>> + Send>;

pub(super) struct Watched {
    /// For the log: `configuration`, `certificate`.
    what: &'static str,
    files: Files,
    apply: Apply,
    stamps: FileStamps,
    /// Of the contents that were applied, or refused, last.
    digest: u64,
    last_error: Option<String>,
    untrusted_polls: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reload {
    Unchanged,
    Applied,
    /// The contents before stay in use.
    Failed(String),
}

impl Watched {
    /// `first` was read and applied at the start, when the files had these `stamps`.
    pub(super) fn new(
        what: &'static str,
        files: Files,
        first: &FileContents,
        stamps: FileStamps,
        apply: Apply,
    ) -> Self {
        Self {
            what,
            files,
            apply,
            stamps,
            digest: first.digest,
            last_error: None,
            untrusted_polls: UNTRUSTED_POLLS,
        }
    }

    fn poll(&mut self) -> Reload {
        let stamps = self.files.stamps();
        if stamps != self.stamps {
            self.stamps = stamps;
            self.untrusted_polls = UNTRUSTED_POLLS;
            return Reload::Unchanged;
        }
        if self.untrusted_polls == 0 {
            return Reload::Unchanged;
        }
        self.untrusted_polls -= 1;
        let applied = match self.files.read() {
            Ok(contents) if contents.digest == self.digest => {
                // What could not be read for a moment is there again.
                self.last_error = None;
                return Reload::Unchanged;
            }
            Ok(contents) => {
                self.digest = contents.digest;
                (self.apply)(&contents)
            }
            Err(unreadable) => Err(unreadable.into()),
        };
        match applied {
            Ok(()) => {
                self.last_error = None;
                Reload::Applied
            }
            Err(error) => {
                let error = describe(&*error);
                if self.last_error.as_ref() == Some(&error) {
                    return Reload::Unchanged;
                }
                self.last_error = Some(error.clone());
                Reload::Failed(error)
            }
        }
    }
}

/// Checks the files until the process ends, on a separate thread, as it waits for disks and reads long texts.
pub(super) fn watch(mut watched: Vec<(Watched, Reloads)>) {
    thread::spawn(move || {
        loop {
            thread::sleep(POLL_INTERVAL);
            for (watched, reloads) in &mut watched {
                let what = watched.what;
                match watched.poll() {
                    Reload::Unchanged => {}
                    Reload::Applied => {
                        reloads.count("done");
                        tracing::info!(what, "reloaded");
                    }
                    Reload::Failed(error) => {
                        reloads.count("failed");
                        tracing::error!(what, error, "not reloaded; the one before stays in use");
                    }
                }
            }
        }
    });
}

/// Reads in a row if files change meanwhile.
const ATTEMPTS: usize = 5;

#[derive(Clone, Debug)]
pub(super) struct WatchedFile {
    pub(super) path: PathBuf,
    /// True if its absence means something; else it is an error.
    pub(super) optional: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Files(pub(super) Vec<WatchedFile>);

/// For each file its device, number, size and times, by which a change is seen; `None` where the file does not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamps(Vec<Option<[u64; 7]>>);

/// The texts are in the order of the files.
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

    /// Reads all files as they are at one moment.
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use testkit::folder::Folder;

    /// A folder as Kubernetes mounts it, of two files.
    struct Mount {
        folder: Folder,
        applied: Arc<Mutex<Vec<String>>>,
        watched: Watched,
    }

    fn fill(folder: &Path, version: &str, texts: [&str; 2]) {
        let data = folder.join(version);
        fs::create_dir_all(&data).expect("a folder");
        for (name, text) in ["a", "b"].iter().zip(texts) {
            fs::write(data.join(name), text).expect("a file");
        }
        symlink(version, folder.join("..next")).expect("a link");
        fs::rename(folder.join("..next"), folder.join("..data")).expect("an exchange");
    }

    impl Mount {
        fn new(name: &str) -> Self {
            let folder = Folder::new(&format!("reload-{name}"));
            fill(&folder, "..1", ["one", "one"]);
            let file = |name: &str| {
                let path = folder.join(name);
                symlink(Path::new("..data").join(name), &path).expect("a link");
                WatchedFile { path, optional: name == "b" }
            };
            let files = Files(vec![file("a"), file("b")]);
            let applied = Arc::new(Mutex::new(Vec::new()));
            let heard = Arc::clone(&applied);
            let apply = move |contents: &FileContents| {
                let texts = contents.texts.iter().flatten().map(|text| String::from_utf8_lossy(text));
                let text = texts.collect::<Vec<_>>().join(" ");
                if text.contains("bad") {
                    return Err("it is bad".into());
                }
                heard.lock().expect("no test has failed inside").push(text);
                Ok(())
            };
            let stamps = files.stamps();
            let first = files.read().expect("texts");
            let watched = Watched::new("mount", files, &first, stamps, Box::new(apply));
            Self { folder, applied, watched }
        }

        /// The changes at the next polls, until the stamps are trusted.
        fn polls(&mut self) -> Vec<Reload> {
            let seen: Vec<Reload> = (0..=UNTRUSTED_POLLS).map(|_| self.watched.poll()).collect();
            seen.into_iter().filter(|seen| *seen != Reload::Unchanged).collect()
        }

        fn applied(&self) -> Vec<String> {
            self.applied.lock().expect("no test has failed inside").clone()
        }
    }

    #[test]
    fn a_folder_that_is_exchanged_is_taken_once() {
        let mut mount = Mount::new("exchanged");
        assert_eq!(mount.polls(), []);
        fill(&mount.folder, "..2", ["two", "two"]);
        assert_eq!(mount.polls(), [Reload::Applied]);
        assert_eq!(mount.polls(), []);
        // The same texts again are no change.
        fill(&mount.folder, "..3", ["two", "two"]);
        assert_eq!(mount.polls(), []);
        assert_eq!(mount.applied(), ["two two"]);
    }

    #[test]
    fn a_bad_file_is_reported_once_and_a_later_good_one_is_loaded() {
        let mut mount = Mount::new("bad");
        fill(&mount.folder, "..2", ["bad", "two"]);
        assert_eq!(mount.polls(), [Reload::Failed("it is bad".to_owned())]);
        fs::remove_file(mount.folder.join("..2/a")).expect("a file");
        let [Reload::Failed(error)] = &mount.polls()[..] else { panic!("no failure") };
        assert!(error.contains("/a: can't be read: No such file"), "{error}");
        assert_eq!(mount.applied(), [""; 0]);
        fs::write(mount.folder.join("..2/a"), "three").expect("a file");
        fs::remove_file(mount.folder.join("..2/b")).expect("a file");
        assert_eq!(mount.polls(), [Reload::Applied]);
        assert_eq!(mount.applied(), ["three"]);
    }

    #[test]
    fn a_file_that_looks_the_same_is_not_trusted_at_once() {
        let mut mount = Mount::new("same");
        fill(&mount.folder, "..2", ["two", "two"]);
        assert_eq!([mount.watched.poll(), mount.watched.poll()], [Reload::Unchanged, Reload::Applied]);
        // As if it had been written within one tick of the kernel's clock.
        fs::write(mount.folder.join("..2/a"), "six").expect("a file");
        mount.watched.stamps = mount.watched.files.stamps();
        assert_eq!(mount.watched.poll(), Reload::Applied);
        assert_eq!(mount.applied(), ["two two", "six two"]);
    }
}
