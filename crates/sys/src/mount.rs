//! Private mount namespace with bind-mounted replacements for some files.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, Permissions};
use std::{io, os::unix::fs::PermissionsExt, path::Path};

/// Moves this process into a new mount namespace; returns true if later mounts are private to it. In a chroot whose root is not a
/// mount point, they are not: the mount above is out of reach and propagates mounts below it.
pub fn leave() -> io::Result<bool> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    match mount_with(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
        done => done.map(|()| true),
    }
}

/// Mounts a `/proc` of our PID namespace. Fails in a container whose own `/proc` is partly covered.
pub fn proc() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_with(Some(Path::new("proc")), Path::new("/proc"), Some("proc"), flags)
}

/// Replaces a file's content for this process and its children.
pub fn cover(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    // Any folder would do: it is mounted over only briefly, and the bind mount keeps the file.
    let folder = Path::new("/mnt");
    mount_with(Some(Path::new("tmpfs")), folder, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV)?;
    let inside = folder.join("text");
    let done = fs::write(&inside, text)
        // Other users read the file too, so the umask must not apply.
        .and_then(|()| fs::set_permissions(&inside, Permissions::from_mode(0o644)))
        .and_then(|()| mount_with(Some(&inside), &file, None, MsFlags::MS_BIND));
    umount2(folder, MntFlags::MNT_DETACH)?;
    done
}

fn mount_with(what: Option<&Path>, at: &Path, kind: Option<&str>, flags: MsFlags) -> io::Result<()> {
    Ok(mount(what, at, kind, flags, None::<&str>)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::{Mode, umask};
    use std::thread;

    #[test]
    fn covered_files_are_world_readable_despite_the_umask() {
        let folder = testkit::folder::Folder::new("cover");
        let file = folder.join("file");
        fs::write(&file, "below").expect("a file");
        let path = file.clone();
        let seen = thread::spawn(move || {
            assert!(leave().expect("CAP_SYS_ADMIN"), "the root directory is a mount point");
            umask(Mode::from_bits_truncate(0o077));
            cover(&path, "above").expect("it can be covered");
            let mode = fs::metadata(&path).expect("it is there").permissions().mode();
            (fs::read_to_string(&path).expect("it can be read"), mode & 0o777)
        });
        let seen = seen.join().expect("no panic");
        let outside = fs::read_to_string(&file).expect("it can be read");
        assert_eq!((seen, outside.as_str()), (("above".to_owned(), 0o644), "below"));
    }
}
