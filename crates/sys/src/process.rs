//! Processes, as `/proc` shows them: our own rights, and who else runs in the namespace.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// `CAP_NET_ADMIN` (`linux/capability.h`): rules, routes, addresses.
pub const NET_ADMIN: u32 = 12;
/// `CAP_NET_RAW`: the legacy interface of iptables opens a raw socket.
pub const NET_RAW: u32 = 13;
/// `CAP_SYS_ADMIN`: namespaces.
pub const SYS_ADMIN: u32 = 21;

/// Whether we hold a capability; `None` where `/proc` is missing.
pub fn holds(capability: u32) -> Option<bool> {
    let status = status(Path::new("/proc/self")).ok()?;
    let mask = u64::from_str_radix(field(&status, "CapEff:")?, 16).ok()?;
    Some(mask >> capability & 1 == 1)
}

/// A process and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// Its id, as we see it.
    pub id: u32,
    /// Its name, cut to 15 bytes by the kernel.
    pub name: String,
    pub uid: u32,
    /// Whether it is in our network namespace; `None` where we may not see that of processes of other users.
    pub is_here: Option<bool>,
}

/// The processes of these users, as far as we may see them, but for those that are surely in another network namespace.
///
/// # Errors
/// When `/proc` does not show us.
pub fn of_users(uids: &[u32]) -> io::Result<Vec<RunningProcess>> {
    let namespace = |folder: &Path| fs::metadata(folder.join("ns/net")).map(|metadata| metadata.ino());
    let here = namespace(Path::new("/proc/thread-self"))?;
    let process = |folder: PathBuf| {
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        // A process that can't be read has ended: the file is world-readable.
        let status = status(&folder).ok()?;
        let uid = field(&status, "Uid:")?.split('\t').nth(1)?.parse().ok()?;
        let name = name(&status)?;
        let is_here = match namespace(&folder) {
            Ok(there) => Some(there == here),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        };
        (uids.contains(&uid) && is_here != Some(false)).then_some(RunningProcess { id, name, uid, is_here })
    };
    Ok(folders(Path::new("/proc"))?.into_iter().filter_map(process).collect())
}

/// The processes that hold a socket, by its inode, as far as we may see them; the lowest number first.
pub(super) fn holding_socket(inode: u64) -> Vec<u32> {
    let holds = |folder: &PathBuf| sockets(folder).any(|socket| socket == inode);
    let folders = folders(Path::new("/proc")).unwrap_or_default().into_iter().filter(holds);
    let mut ids: Vec<u32> = folders.filter_map(|folder| folder.file_name()?.to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// The sockets that a process has open, by their inodes: of one that has ended, or that we may not look into, none.
pub(super) fn sockets(folder: &Path) -> impl Iterator<Item = u64> {
    let open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|file| {
        let target = fs::read_link(file.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// The folders of processes below `/proc`, or below where it is mounted.
pub fn folders(proc: &Path) -> io::Result<Vec<PathBuf>> {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let entries = fs::read_dir(proc)?.flatten();
    Ok(entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_number))
        .map(|entry| entry.path())
        .collect())
}

/// The folder of a process's parent.
pub(super) fn parent(folder: &Path) -> Option<PathBuf> {
    let status = status(folder).ok()?;
    let id: u32 = field(&status, "PPid:")?.parse().ok().filter(|id| *id > 0)?;
    Some(folder.with_file_name(id.to_string()))
}

/// When a process has started, in clock ticks since the machine has (`proc_pid_stat(5)`); `None` if it has ended.
pub(super) fn started(folder: &Path) -> Option<u64> {
    let stat = read(&folder.join("stat")).ok()?;
    // The second field, the program's name, may contain anything; the time is the 22nd.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// A file of a process as text. Its name in there is of its own choice, of any bytes (`PR_SET_NAME` in `prctl(2)`).
fn read(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

/// The `status` of the process with this folder.
pub(super) fn status(folder: &Path) -> io::Result<String> {
    read(&folder.join("status"))
}

/// A process's name, by its status, without what would move a terminal's cursor: of control characters, the kernel escapes
/// the line break alone.
pub(super) fn name(status: &str) -> Option<String> {
    Some(field(status, "Name:")?.replace(char::is_control, "\u{fffd}"))
}

/// A field of `/proc/PID/status`.
pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// The process that holds a lock (`flock`) on a file, if any.
pub fn lock_holder(file: &Path) -> Option<u32> {
    let inode = format!(":{}", fs::metadata(file).ok()?.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // 1: FLOCK  ADVISORY  WRITE 1234 00:19:5678 0 EOF
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        (words.get(1) == Some(&"FLOCK") && words.get(5)?.ends_with(&inode)).then(|| words[4].parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel cuts names at 15 bytes, within a character if need be.
    #[test]
    fn a_process_is_read_whatever_its_name_and_the_name_moves_no_cursor() {
        let root = testkit::folder::Folder::new("names");
        let folder = root.join("7");
        fs::create_dir(&folder).expect("a folder");
        let chosen: &[u8] = b"a)\x1b[2J\xc3 \x07b";
        let status_text = [&b"Name:\t"[..], chosen, &b"\nPPid:\t5\n"[..]].concat();
        fs::write(folder.join("status"), status_text).expect("status");
        let times = format!(") S {}100 0", "0 ".repeat(18));
        fs::write(folder.join("stat"), [&b"7 ("[..], chosen, times.as_bytes()].concat()).expect("stat");
        let shown = name(&status(&folder).expect("it is there"));
        let found = (parent(&folder), started(&folder));
        assert_eq!(shown.as_deref(), Some("a)\u{fffd}[2J\u{fffd} \u{fffd}b"));
        assert_eq!(found, (Some(root.join("5")), Some(100)));
    }
}
