//! Callers of `sandbox`, and their arguments.

use crate::support::folder::Folder;
use crate::support::program::{BINARY, folder_with};
use std::{
    env, fs,
    process::Command,
    sync::{Arc, Mutex, PoisonError, Weak},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunAs {
    Root,
    /// A user with subordinate IDs in `/etc/subuid`.
    Many,
    One,
}

pub(crate) const EVERYBODY: [RunAs; 3] = [RunAs::Root, RunAs::Many, RunAs::One];

/// A user ID that no real user should have.
pub(crate) const USER: u32 = 42_424;

/// The programs in a folder that every user can read, removed after the last test that uses them.
pub(crate) struct Programs {
    pub(crate) folder: Folder,
}

static SHARED: Mutex<Weak<Programs>> = Mutex::new(Weak::new());

impl Programs {
    pub(crate) fn get() -> Arc<Programs> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let made = Arc::new(Programs::new());
            *shared = Arc::downgrade(&made);
            made
        })
    }

    fn new() -> Programs {
        let programs = Programs { folder: folder_with(BINARY, "sandbox") };
        let test = env::current_exe().expect("this program");
        crate::support::program::copy(test, programs.folder.join("inside"));
        programs.write_users();
        programs
    }

    /// Writes the user's subordinate IDs, and the user's name, which `newuidmap` requires.
    fn write_users(&self) {
        let write =
            |name: &str, text: String| fs::write(self.folder.join(name), text).expect("a file of the test");
        let old = |file: &str| fs::read_to_string(file).unwrap_or_default();
        write("subordinate", format!("{USER}:400000:1000\n"));
        write("passwd", format!("{}someone:x:{USER}:{USER}::/:/bin/sh\n", old("/etc/passwd")));
        write("group", format!("{}someone:x:{USER}:\n", old("/etc/group")));
    }

    pub(crate) fn call(&self, who: RunAs) -> Command {
        let program = self.folder.join("sidecar-init");
        let user = USER.to_string();
        let mut command = match who {
            RunAs::Root => Command::new(&program),
            RunAs::Many | RunAs::One => {
                // The machine's files are never written: replacements are bound over them in this call's mount namespace.
                let bind = "mount --bind $0/subordinate /etc/subuid && mount --bind $0/subordinate /etc/subgid && \
                            mount --bind $0/passwd /etc/passwd && mount --bind $0/group /etc/group";
                let bind = if who == RunAs::Many { bind } else { "true" };
                let script = format!(
                    "{bind} && exec setpriv --reuid {user} --regid {user} --clear-groups $0/sidecar-init \"$@\""
                );
                let mut command = Command::new("unshare");
                command.args(["--mount", "sh", "-c", &script]).arg(&*self.folder);
                command
            }
        };
        command.current_dir("/").arg("sandbox");
        command
    }
}
