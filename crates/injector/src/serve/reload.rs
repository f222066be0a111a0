//! Reloads changed files while the server runs.
//!
//! Several files are read as one unit. They may be written at any time: by Kubernetes, which replaces the whole folder of a
//! ConfigMap or Secret at once, or by hand, one by one. So new contents apply once two consecutive reads are equal.
//!
//! Files are read ten times per second rather than watched with inotify: polling covers volumes that the kubelet replaces, bind
//! mounts and network file systems. If new contents can't be read or parsed, the previous ones stay in use.

use super::metrics::Reloads;
use cluster::error::describe;
use std::{collections::BTreeMap, error::Error, fs, io, path::PathBuf, thread, time::Duration};

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Puts contents into use; on error, changes nothing.
pub(super) type Apply = Box<dyn Fn(&FileContents) -> Result<(), Box<dyn Error>> + Send>;

pub(super) struct Watched {
    /// Name for the log: `configuration`, `certificate`.
    what: &'static str,
    files: Files,
    apply: Apply,
    reloads: Reloads,
    /// Last contents that were applied or refused.
    known: Result<FileContents, String>,
    seen: Result<FileContents, String>,
}

impl Watched {
    /// `first` was read and applied at startup.
    pub(super) fn new(
        what: &'static str,
        files: Files,
        first: FileContents,
        apply: Apply,
        reloads: Reloads,
    ) -> Self {
        Self { what, files, apply, reloads, known: Ok(first.clone()), seen: Ok(first) }
    }

    fn poll(&mut self) -> Option<Result<(), String>> {
        let found = self.files.read();
        if found != self.seen {
            self.seen = found;
            return None;
        }
        if found == self.known {
            return None;
        }
        let applied = match &found {
            Ok(contents) => (self.apply)(contents).map_err(|error| describe(&*error)),
            Err(unreadable) => Err(unreadable.clone()),
        };
        self.known = found;
        Some(applied)
    }
}

/// Checks the files until the process ends, on a separate thread, since it waits for disks and parses long texts.
pub(super) fn watch(mut watched: Vec<Watched>) {
    thread::spawn(move || {
        loop {
            thread::sleep(POLL_INTERVAL);
            for watched in &mut watched {
                match watched.poll() {
                    None => {}
                    Some(Ok(())) => {
                        watched.reloads.get_or_create(&[("outcome", "done")]).inc();
                        tracing::info!(what = watched.what, "reloaded");
                    }
                    Some(Err(error)) => {
                        watched.reloads.get_or_create(&[("outcome", "failed")]).inc();
                        tracing::error!(
                            what = watched.what,
                            error,
                            "not reloaded; the previous one stays in use"
                        );
                    }
                }
            }
        }
    });
}

#[derive(Clone, Debug)]
pub(super) struct WatchedFile {
    /// Key in a ConfigMap or a Secret.
    pub(super) key: &'static str,
    pub(super) path: PathBuf,
    pub(super) optional: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Files(pub(super) Vec<WatchedFile>);

/// Contents by key, without absent files.
pub(super) type FileContents = BTreeMap<&'static str, Vec<u8>>;

impl Files {
    pub(super) fn read(&self) -> Result<FileContents, String> {
        let read = |file: &WatchedFile| match fs::read(&file.path) {
            Ok(text) => Some(Ok((file.key, text))),
            Err(error) if file.optional && error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(format!("{}: can't be read: {error}", file.path.display()))),
        };
        self.0.iter().filter_map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use testkit::folder::Folder;

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
            let file = |name: &'static str| {
                let path = folder.join(name);
                symlink(Path::new("..data").join(name), &path).expect("a link");
                WatchedFile { key: name, path, optional: name == "b" }
            };
            let files = Files(vec![file("a"), file("b")]);
            let applied = Arc::new(Mutex::new(Vec::new()));
            let heard = Arc::clone(&applied);
            let apply = move |contents: &FileContents| {
                let texts = contents.values().map(|text| String::from_utf8_lossy(text));
                let text = texts.collect::<Vec<_>>().join(" ");
                if text.contains("bad") {
                    return Err("it is bad".into());
                }
                heard.lock().expect("no test has failed inside").push(text);
                Ok(())
            };
            let first = files.read().expect("texts");
            let watched = Watched::new("mount", files, first, Box::new(apply), Reloads::default());
            Self { folder, applied, watched }
        }

        fn polls(&mut self) -> Vec<Result<(), String>> {
            (0..4).filter_map(|_| self.watched.poll()).collect()
        }

        fn applied(&self) -> Vec<String> {
            self.applied.lock().expect("no test has failed inside").clone()
        }
    }

    #[test]
    fn a_replaced_folder_is_loaded_once() {
        let mut mount = Mount::new("exchanged");
        assert_eq!(mount.polls(), []);
        fill(&mount.folder, "..2", ["two", "two"]);
        assert_eq!(mount.polls(), [Ok(())]);
        assert_eq!(mount.polls(), []);
        // Equal texts cause no reload.
        fill(&mount.folder, "..3", ["two", "two"]);
        assert_eq!(mount.polls(), []);
        assert_eq!(mount.applied(), ["two two"]);
    }

    #[test]
    fn a_bad_file_is_reported_once_and_a_later_good_one_is_loaded() {
        let mut mount = Mount::new("bad");
        fill(&mount.folder, "..2", ["bad", "two"]);
        assert_eq!(mount.polls(), [Err("it is bad".to_owned())]);
        fs::remove_file(mount.folder.join("..2/a")).expect("a file");
        let [Err(error)] = &mount.polls()[..] else { panic!("no failure") };
        assert!(error.contains("/a: can't be read: No such file"), "{error}");
        assert_eq!(mount.applied(), [""; 0]);
        fs::write(mount.folder.join("..2/a"), "three").expect("a file");
        fs::remove_file(mount.folder.join("..2/b")).expect("a file");
        assert_eq!(mount.polls(), [Ok(())]);
        assert_eq!(mount.applied(), ["three"]);
    }
}
