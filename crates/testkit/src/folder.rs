//! Temporary folders, removed when their test ends.

use std::{
    env,
    fmt::Display,
    fs,
    ops::Deref,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder with a unique name that contains `name`.
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("sidecar-init-{name}-{}-{number}", process::id()));
        fs::create_dir(&path).unwrap_or_else(|error| panic!("making {} failed: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
        Self(path)
    }

    pub fn file(&self, name: &str) -> String {
        self.join(name).to_str().expect("UTF-8").to_owned()
    }

    pub fn write(&self, name: &str, content: &(impl Display + ?Sized)) -> String {
        let written = fs::write(self.join(name), content.to_string());
        written.unwrap_or_else(|error| panic!("writing {name} failed: {error}"));
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
