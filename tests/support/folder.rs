//! Folders that exist as long as their test.

use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A temporary folder that every user can read; it goes when it is dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// The name is for who finds the folder; no two folders have the same.
    pub(crate) fn new(name: &str) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("sidecar-init-{name}-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("making {} failed: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        Folder(path)
    }

    /// One with a copy of a program, by the name `sidecar-init`.
    pub(crate) fn with_program(name: &str, program: impl AsRef<Path>) -> Folder {
        let folder = Folder::new(name);
        super::program::copy(program, folder.join("sidecar-init"));
        folder
    }

    /// A path in it, for the command line.
    pub(crate) fn file(&self, name: &str) -> String {
        self.join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes a file; its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.join(name), text).unwrap_or_else(|error| panic!("writing {name} failed: {error}"));
        self.file(name)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
