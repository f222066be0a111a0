//! Processes from `/proc`: our own capabilities, and other processes of the namespace.

use super::user::OwnerIds;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::{errno::Errno, sys::stat::Mode};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::{os::fd::OwnedFd, os::unix::fs::MetadataExt};

/// `CAP_NET_ADMIN` (`linux/capability.h`): rules, routes, addresses.
pub const NET_ADMIN: u32 = 12;
/// `CAP_NET_RAW`: legacy iptables opens a raw socket.
pub const NET_RAW: u32 = 13;
/// `CAP_SYS_ADMIN`: namespaces.
pub const SYS_ADMIN: u32 = 21;

/// True if this process has the capability; `None` if `/proc` is missing.
pub fn holds(capability: u32) -> Option<bool> {
    let status = status(Path::new("/proc/self")).ok()?;
    let mask = u64::from_str_radix(field(&status, "CapEff:")?, 16).ok()?;
    Some(mask >> capability & 1 == 1)
}

const MAX_BYTES: u64 = 64 * 1024;

/// Start of a regular file in a process's root directory. The process is a folder below `/proc`; the path has no leading `/`.
pub fn read_as(process: &Path, path: &str) -> io::Result<Vec<u8>> {
    start_of_file(&File::open(process.join("root"))?, path)
}

/// Start of a file below a container's root directory. The container may have made the file: its symbolic links are resolved
/// within that root, so none leads to a node file, and reading can't block or go on forever.
fn start_of_file(root: &File, path: &str) -> io::Result<Vec<u8>> {
    let flags = OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_IN_ROOT);
    let opened = match openat2(root, path, how) {
        // Linux before 5.6, or an old seccomp filter.
        Err(Errno::ENOSYS | Errno::EPERM) => without_links(root, path, flags)?,
        other => other?,
    };
    let file = File::from(opened);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut content)?;
    Ok(content)
}

fn without_links(root: &File, path: &str, flags: OFlag) -> io::Result<OwnedFd> {
    path.split('/').try_fold(OwnedFd::from(root.try_clone()?), |folder, name| {
        openat(folder, name, flags | OFlag::O_NOFOLLOW, Mode::empty()).map_err(io::Error::from)
    })
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    /// In our PID namespace.
    pub id: u32,
    /// Cut to 15 bytes by the kernel.
    pub name: String,
    pub uid: u32,
    /// True in our network namespace; `None` if another user's process can't be read.
    pub is_here: Option<bool>,
}

/// Processes of these users (numbered as in rules) that may be in our network namespace, among these folders or all.
pub fn of_users(uids: &[u32], among: Option<&[PathBuf]>) -> io::Result<Vec<RunningProcess>> {
    let namespace = |folder: &Path| fs::metadata(folder.join("ns/net")).map(|metadata| metadata.ino());
    let here = namespace(Path::new("/proc/thread-self"))?;
    let ids = OwnerIds::here();
    let process = |folder: PathBuf| {
        let id = folder.file_name()?.to_str()?.parse().ok()?;
        // The file is world-readable, so an unreadable process has ended.
        let status = status(&folder).ok()?;
        let uid = ids.user_in_rules(field(&status, "Uid:")?.split('\t').nth(1)?.parse().ok()?);
        let name = name(&status)?;
        let is_here = match namespace(&folder) {
            Ok(there) => Some(there == here),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => None,
            Err(_) => Some(false),
        };
        (uids.contains(&uid) && is_here != Some(false)).then_some(RunningProcess { id, name, uid, is_here })
    };
    let all = match among {
        Some(among) => among.to_vec(),
        None => folders(Path::new("/proc"))?,
    };
    Ok(all.into_iter().filter_map(process).collect())
}

/// Visible processes that hold the socket with this inode, lowest ID first.
pub(super) fn holding_socket(inode: u64) -> Vec<u32> {
    let holds = |folder: &PathBuf| sockets(folder).any(|socket| socket == inode);
    let folders = folders(Path::new("/proc")).unwrap_or_default().into_iter().filter(holds);
    let mut ids: Vec<u32> = folders.filter_map(|folder| folder.file_name()?.to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

/// Inodes of a process's open sockets; none if it has ended or is not readable.
pub(super) fn sockets(folder: &Path) -> impl Iterator<Item = u64> {
    let open = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
    open.filter_map(|file| {
        let target = fs::read_link(file.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// Folders of processes below `/proc`, or below another procfs mount.
pub fn folders(proc: &Path) -> io::Result<Vec<PathBuf>> {
    let is_number = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    let entries = fs::read_dir(proc)?.flatten();
    let entries = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_number));
    Ok(entries.map(|entry| entry.path()).collect())
}

pub(super) fn parent(folder: &Path) -> Option<PathBuf> {
    let status = status(folder).ok()?;
    let id: u32 = field(&status, "PPid:")?.parse().ok().filter(|id| *id > 0)?;
    Some(folder.with_file_name(id.to_string()))
}

/// Start time of a process, in clock ticks since boot (`proc_pid_stat(5)`); `None` if it has ended.
pub(super) fn started(folder: &Path) -> Option<u64> {
    let stat = read(&folder.join("stat")).ok()?;
    // The second field, the program's name, may contain anything; the time is the 22nd.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Reads a process's file. The process's name in it may have any bytes (`PR_SET_NAME` in `prctl(2)`).
fn read(file: &Path) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned())
}

pub(super) fn status(folder: &Path) -> io::Result<String> {
    read(&folder.join("status"))
}

/// Name of a process from its status, without control characters, of which the kernel escapes only the line break.
pub(super) fn name(status: &str) -> Option<String> {
    Some(field(status, "Name:")?.replace(char::is_control, "\u{fffd}"))
}

pub(super) fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

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
    use std::os::unix::fs::symlink;

    #[test]
    fn links_resolve_within_the_root_or_are_refused() {
        let folder = testkit::folder::Folder::new("root");
        for name in ["etc", "run"] {
            fs::create_dir_all(folder.join(name)).expect("a folder");
        }
        fs::write(folder.join("run/servers"), "nameserver 10.9.8.7\n").expect("written");
        symlink("/run/servers", folder.join("etc/resolv.conf")).expect("a link");
        let root = File::open(&*folder).expect("a folder");
        let content = start_of_file(&root, "etc/resolv.conf").expect("a file");
        assert_eq!(content, b"nameserver 10.9.8.7\n");
        start_of_file(&root, "etc").expect_err("a folder");
        symlink("run", folder.join("linked")).expect("a link");
        without_links(&root, "run/servers", OFlag::O_CLOEXEC).expect("no link");
        for path in ["linked/servers", "etc/resolv.conf"] {
            without_links(&root, path, OFlag::O_CLOEXEC).expect_err("a link");
        }
    }

    /// The kernel cuts names at 15 bytes, possibly within a character.
    #[test]
    fn process_names_of_any_bytes_are_read_without_control_characters() {
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
