//! A private mount namespace with replacements of some files.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use std::fs::{self, Permissions};
use std::{io, os::unix::fs::PermissionsExt, path::Path};

/// Moves this process into a new mount namespace, and returns whether later mounts are private to it. They are not in a chroot
/// whose root is no mount point: the mount that holds it cannot be reached, and passes on to others what is mounted below it.
pub fn leave() -> io::Result<bool> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    match mount_with(None, Path::new("/"), None, MsFlags::MS_REC | MsFlags::MS_PRIVATE) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(false),
        done => done.map(|()| true),
    }
}

/// Makes `/proc` show our process namespace. Refused to a container whose own `/proc` is covered in part.
pub fn proc() -> io::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount_with(Some(Path::new("proc")), Path::new("/proc"), Some("proc"), flags)
}

/// Makes a file hold this text, for us and our children.
pub fn cover(file: &Path, text: &str) -> io::Result<()> {
    let file = fs::canonicalize(file)?;
    // Some folder for a moment: the file stays when it is given back.
    let folder = Path::new("/mnt");
    mount_with(Some(Path::new("tmpfs")), folder, Some("tmpfs"), MsFlags::MS_NOSUID | MsFlags::MS_NODEV)?;
    let inside = folder.join("text");
    let done = fs::write(&inside, text)
        // Whatever the umask: other users read it as well.
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
    fn every_user_can_read_a_covered_file_whatever_the_umask() {
        let folder = testkit::folder::Folder::new("cover");
        let file = folder.join("file");
        fs::write(&file, "below").expect("a file");
        let path = file.clone();
        let seen = thread::spawn(move || {
            // From here on, mounts and umask are those of the thread alone.
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
