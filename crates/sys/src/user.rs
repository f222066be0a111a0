//! Users and groups of a process, user namespaces, and IDs in rules, which belong to the user namespace that owns the network
//! namespace (`sock_net(sk)->user_ns` in `xt_owner.c`). A pod with `hostUsers: false` has its own user namespace.

use super::namespace::NamespaceId;
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};
use nix::{errno::Errno, libc};
use std::os::fd::{AsRawFd, FromRawFd};
use std::{cell::RefCell, fs, fs::File, io, io::Read, os::unix::fs::MetadataExt, path::Path};

/// The kernel's number for an ID that is not mapped in a user namespace (`/proc/sys/kernel/overflowuid`).
const OVERFLOW: u32 = 65534;
/// `NS_GET_USERNS` of `linux/nsfs.h`: the user namespace that owns the namespace.
const NS_GET_USERNS: libc::c_ulong = 0xb701;

/// ID maps of the user namespace that owns a network namespace, in our numbers.
#[derive(Clone, Debug, Default)]
pub struct OwnerIds {
    /// Users, then groups; `None` if rules use our own numbers.
    maps: Option<[Vec<IdMapRange>; 2]>,
}

thread_local!(static KNOWN: RefCell<Option<(NamespaceId, OwnerIds)>> = const { RefCell::new(None) });

impl OwnerIds {
    /// Reads the maps for the thread's network namespace. If the kernel hides its owner, our own numbers apply.
    pub fn here() -> Self {
        let read = || {
            let namespace = File::open("/proc/thread-self/ns/net")?;
            let id = namespace.metadata().map(|metadata| (metadata.dev(), metadata.ino()))?;
            let known = KNOWN.with_borrow(|known| known.clone().filter(|(known, _)| *known == id));
            if let Some((_, known)) = known {
                return Ok(known);
            }
            let found = Self { maps: maps(&owner(&namespace)?)? };
            KNOWN.set(Some((id, found.clone())));
            io::Result::Ok(found)
        };
        read().unwrap_or_default()
    }

    /// Our numbers for a user and a group in rules; `None` if either has none.
    pub fn ours(&self, (uid, gid): (u32, u32)) -> Option<(u32, u32)> {
        let Some([users, groups]) = &self.maps else { return Some((uid, gid)) };
        let ours = |map: &[IdMapRange], id: u32| {
            map.iter().find_map(|range| {
                Some(range.outside + id.checked_sub(range.inside).filter(|at| *at < range.count)?)
            })
        };
        Some((ours(users, uid)?, ours(groups, gid)?))
    }

    pub fn user_in_rules(&self, uid: u32) -> u32 {
        self.maps.as_ref().map_or(uid, |[users, _]| in_rules(users, uid))
    }

    pub fn group_in_rules(&self, gid: u32) -> u32 {
        self.maps.as_ref().map_or(gid, |[_, groups]| in_rules(groups, gid))
    }
}

fn in_rules(map: &[IdMapRange], id: u32) -> u32 {
    let place = |range: &IdMapRange| id.checked_sub(range.outside).filter(|at| *at < range.count);
    map.iter().find_map(|range| Some(range.inside + place(range)?)).unwrap_or(OVERFLOW)
}

#[expect(unsafe_code, reason = "a request that nix lacks")]
fn owner(namespace: &File) -> io::Result<File> {
    // SAFETY: the request takes no argument, and returns a new file descriptor, which nothing else owns.
    unsafe {
        let file = Errno::result(libc::ioctl(namespace.as_raw_fd(), NS_GET_USERNS as _))?;
        Ok(File::from_raw_fd(file))
    }
}

/// Maps of a user namespace, in our numbers; `None` for ours. A child enters the namespace to make them readable.
#[expect(unsafe_code, reason = "a fork is unsafe in general")]
fn maps(namespace: &File) -> io::Result<Option<[Vec<IdMapRange>; 2]>> {
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    if id(namespace.metadata()?) == id(fs::metadata("/proc/self/ns/user")?) {
        return Ok(None);
    }
    let ((mut entered, says), (waits, alive)) = (io::pipe()?, io::pipe()?);
    // SAFETY: the child makes only system calls, which need no lock that another thread may hold, and does not return.
    let child = unsafe {
        let child = Errno::result(libc::fork())?;
        if child == 0 {
            let mut byte = [1u8];
            libc::close(alive.as_raw_fd());
            if libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWUSER) == 0 {
                libc::write(says.as_raw_fd(), byte.as_ptr().cast(), 1);
            }
            libc::close(says.as_raw_fd());
            libc::read(waits.as_raw_fd(), byte.as_mut_ptr().cast(), 1);
            libc::_exit(0);
        }
        child
    };
    drop((says, waits));
    let read = |file: &str| fs::read_to_string(Path::new("/proc").join(child.to_string()).join(file));
    let has_entered = entered.read_exact(&mut [0]);
    let maps = has_entered.and_then(|()| Ok([parse(&read("uid_map")?), parse(&read("gid_map")?)]));
    drop(alive);
    // SAFETY: the call writes nothing.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    maps.map(Some)
}

fn parse(text: &str) -> Vec<IdMapRange> {
    let range = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse);
        let mut next = || numbers.next()?.ok();
        Some(IdMapRange { inside: next()?, outside: next()?, count: next()? })
    };
    text.lines().filter_map(range).collect()
}

/// A line of `uid_map` or `gid_map` (`user_namespaces(7)`): maps IDs starting at `inside` to outer IDs starting at `outside`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMapRange {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

pub fn own() -> (u32, u32) {
    (Uid::effective().as_raw(), Gid::effective().as_raw())
}

/// Moves this single-threaded process into a new user namespace, with all capabilities and no mapped user yet.
pub fn new_namespace() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWUSER)?)
}

/// Maps one user and one group, our own, to other numbers in our new namespace. The right to change groups is lost.
pub fn map_one((uid, gid): (u32, u32), inside: (u32, u32)) -> io::Result<()> {
    let write = |file: &str, text: &str| fs::write(Path::new("/proc/self").join(file), text);
    write("setgroups", "deny")?;
    write("uid_map", &format!("{} {uid} 1", inside.0))?;
    write("gid_map", &format!("{} {gid} 1", inside.1))
}

/// Arguments of `newuidmap` and `newgidmap` (`newuidmap(1)`): the process, and each range.
pub fn words(process: i32, ranges: &[IdMapRange]) -> Vec<String> {
    let of_range =
        |range: &IdMapRange| [range.inside, range.outside, range.count].map(|number| number.to_string());
    [process.to_string()].into_iter().chain(ranges.iter().flat_map(of_range)).collect()
}

/// First of at least `count` subordinate IDs that a file such as `/etc/subuid` assigns to a user (`subuid(5)`).
pub fn subordinate(file: &Path, uid: u32, count: u32) -> Option<u32> {
    let name = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    given(&fs::read_to_string(file).ok()?, name.as_deref(), uid, count)
}

fn given(text: &str, name: Option<&str>, uid: u32, count: u32) -> Option<u32> {
    text.lines().find_map(|line| {
        let mut words = line.trim().split(':');
        let whose = words.next()?;
        let is_its = name == Some(whose) || whose.parse() == Ok(uid);
        let mut number = || words.next()?.parse::<u32>().ok();
        let (first, found) = (number()?, number()?);
        (is_its && found >= count).then_some(first)
    })
}

pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // With a single mapped group, the kernel forbids changing the supplementary groups.
    let _ = setgroups(&[]);
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setresgid(gid, gid, gid)?;
    Ok(setresuid(uid, uid, uid)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mapped_both_ways() {
        let maps = ["         0     100000      65536\n    70000 7 1\n", "1337 5 1\n"].map(parse);
        let ids = OwnerIds { maps: Some(maps) };
        assert_eq!(ids.ours((1337, 1337)), Some((101_337, 5)));
        assert_eq!(ids.ours((70000, 1337)), Some((7, 5)));
        assert_eq!((ids.ours((65536, 1337)), ids.ours((0, 0))), (None, None));
        assert_eq!([101_337, 7, 0].map(|uid| ids.user_in_rules(uid)), [1337, 70000, OVERFLOW]);
        assert_eq!([5, 6].map(|gid| ids.group_in_rules(gid)), [1337, OVERFLOW]);
        let same = OwnerIds::default();
        assert_eq!((same.ours((1, 2)), same.user_in_rules(3), same.group_in_rules(4)), (Some((1, 2)), 3, 4));
    }

    #[test]
    fn subordinate_ids_are_found_by_user_name_or_number() {
        let text = "root:1:2\n# nothing\nada:100000:65536\n1001:200000:65536\nada:3:\n";
        let given = |name, uid, count| given(text, name, uid, count);
        assert_eq!(given(Some("ada"), 1000, 2), Some(100_000));
        assert_eq!(given(Some("bob"), 1001, 2), Some(200_000));
        assert_eq!(given(None, 1002, 2), None);
        assert_eq!(given(Some("root"), 0, 3), None);
    }
}
