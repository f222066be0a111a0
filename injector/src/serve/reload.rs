//! What is read from files, and read again when they change, while the server serves.
//!
//! Files are looked at ten times a second rather than watched: that sees the exchange of a folder by Kubernetes, a bind mount
//! and a file system of the network alike. What can't be read or understood leaves the old in place.

use super::files::{FileContents, FileStamps, Files};
use super::metrics::Reloads;
use crate::output::chain;
use std::{error::Error, thread, time::Duration};

/// How often files are looked at. A change is read at the next look, so that several which come together are one.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// For so many looks after a change files are read even if they look the same: their times are no finer than the kernel's
/// clock.
const UNTRUSTED_POLLS: u8 = 10;

/// Takes what was read into use; or says why not, and then has changed nothing.
pub(super) type Take = Box<dyn Fn(&FileContents) -> Result<(), Box<dyn Error>> + Send>;

/// Files, and what becomes of them.
pub(super) struct Watched {
    /// For the log: `configuration`, `certificate`.
    what: &'static str,
    files: Files,
    take: Take,
    stamps: FileStamps,
    /// Of what was taken, or refused, last.
    digest: u64,
    /// What was wrong last.
    wrong: Option<String>,
    untrusted: u8,
}

/// What came of a look.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reload {
    Nothing,
    Taken,
    /// The old stays.
    Failed(String),
}

impl Watched {
    /// `first` is what was read and taken at the start, when the files had these `stamps`.
    pub(super) fn new(
        what: &'static str,
        files: Files,
        first: &FileContents,
        stamps: FileStamps,
        take: Take,
    ) -> Self {
        Self { what, files, take, stamps, digest: first.digest, wrong: None, untrusted: UNTRUSTED_POLLS }
    }

    fn look(&mut self) -> Reload {
        let stamps = self.files.stamps();
        if stamps != self.stamps {
            self.stamps = stamps;
            self.untrusted = UNTRUSTED_POLLS;
            return Reload::Nothing;
        }
        if self.untrusted == 0 {
            return Reload::Nothing;
        }
        self.untrusted -= 1;
        let taken = match self.files.read() {
            Ok(contents) if contents.digest == self.digest => {
                // What could not be read for a moment is there again.
                self.wrong = None;
                return Reload::Nothing;
            }
            Ok(contents) => {
                self.digest = contents.digest;
                (self.take)(&contents)
            }
            Err(unreadable) => Err(unreadable.into()),
        };
        match taken {
            Ok(()) => {
                self.wrong = None;
                Reload::Taken
            }
            Err(error) => {
                let wrong = chain(&*error);
                if self.wrong.as_ref() == Some(&wrong) {
                    return Reload::Nothing;
                }
                self.wrong = Some(wrong.clone());
                Reload::Failed(wrong)
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
                match watched.look() {
                    Reload::Nothing => {}
                    Reload::Taken => {
                        reloads.count("done");
                        tracing::info!(what, "reloaded");
                    }
                    Reload::Failed(error) => {
                        reloads.count("failed");
                        tracing::error!(what, error, "not reloaded; the old one stays");
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::files::WatchedFile;
    use super::*;
    use std::{
        env, fs,
        os::unix::fs::symlink,
        path::{Path, PathBuf},
        sync::{Arc, Mutex},
    };

    /// A folder as Kubernetes mounts it, of two files.
    struct Mount {
        folder: PathBuf,
        taken: Arc<Mutex<Vec<String>>>,
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
            let folder = env::temp_dir().join(format!("injector-reload-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).expect("a folder");
            fill(&folder, "..1", ["one", "one"]);
            let file = |name: &str| {
                let path = folder.join(name);
                symlink(Path::new("..data").join(name), &path).expect("a link");
                WatchedFile { path, optional: name == "b" }
            };
            let files = Files(vec![file("a"), file("b")]);
            let taken = Arc::new(Mutex::new(Vec::new()));
            let heard = Arc::clone(&taken);
            let take = move |contents: &FileContents| {
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
            let watched = Watched::new("mount", files, &first, stamps, Box::new(take));
            Self { folder, taken, watched }
        }

        /// What the next looks see, as many as untrusted lasts.
        fn looks(&mut self) -> Vec<Reload> {
            let seen: Vec<Reload> = (0..=UNTRUSTED_POLLS).map(|_| self.watched.look()).collect();
            seen.into_iter().filter(|seen| *seen != Reload::Nothing).collect()
        }

        fn taken(&self) -> Vec<String> {
            self.taken.lock().expect("no test has failed inside").clone()
        }
    }

    impl Drop for Mount {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.folder).expect("a folder");
        }
    }

    #[test]
    fn a_folder_that_is_exchanged_is_taken_once() {
        let mut mount = Mount::new("exchanged");
        assert_eq!(mount.looks(), []);
        fill(&mount.folder, "..2", ["two", "two"]);
        assert_eq!(mount.looks(), [Reload::Taken]);
        assert_eq!(mount.looks(), []);
        // The same texts again are no change.
        fill(&mount.folder, "..3", ["two", "two"]);
        assert_eq!(mount.looks(), []);
        assert_eq!(mount.taken(), ["two two"]);
    }

    #[test]
    fn a_bad_file_is_reported_once_and_a_later_good_one_is_loaded() {
        let mut mount = Mount::new("bad");
        fill(&mount.folder, "..2", ["bad", "two"]);
        assert_eq!(mount.looks(), [Reload::Failed("it is bad".to_owned())]);
        fs::remove_file(mount.folder.join("..2/a")).expect("a file");
        let [Reload::Failed(error)] = &mount.looks()[..] else { panic!("no failure") };
        assert!(error.contains("/a: can't be read: No such file"), "{error}");
        assert_eq!(mount.taken(), [""; 0]);
        fs::write(mount.folder.join("..2/a"), "three").expect("a file");
        fs::remove_file(mount.folder.join("..2/b")).expect("a file");
        assert_eq!(mount.looks(), [Reload::Taken]);
        assert_eq!(mount.taken(), ["three"]);
    }

    #[test]
    fn a_file_that_looks_the_same_is_not_trusted_at_once() {
        let mut mount = Mount::new("same");
        fill(&mount.folder, "..2", ["two", "two"]);
        assert_eq!([mount.watched.look(), mount.watched.look()], [Reload::Nothing, Reload::Taken]);
        // As if it had been written within one tick of the kernel's clock.
        fs::write(mount.folder.join("..2/a"), "six").expect("a file");
        mount.watched.stamps = mount.watched.files.stamps();
        assert_eq!(mount.watched.look(), Reload::Taken);
        assert_eq!(mount.taken(), ["two two", "six two"]);
    }
}
