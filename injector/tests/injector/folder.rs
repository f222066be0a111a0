//! A folder for the files of one test.

use std::fmt::Display;
use std::{fs, path::PathBuf};

/// It goes with the test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// `name` is that of no other test.
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sidecar-injector-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    /// The path of a file, be it there or not, as a command takes it.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    /// Writes a file, and answers its path.
    pub(crate) fn file(&self, name: &str, content: &(impl Display + ?Sized)) -> String {
        let path = self.path(name);
        fs::write(&path, content.to_string()).expect("a file");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
