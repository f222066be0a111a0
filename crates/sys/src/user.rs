//! Users and groups of a process, and user namespaces in which an unprivileged user has many of them.

use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, User, setgroups, setresgid, setresuid};
use std::{fs, io, path::Path};

/// A line of `uid_map` or `gid_map` (`user_namespaces(7)`): the IDs from `inside` on in the namespace are those from `outside`
/// on in the one around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdMapRange {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// Subordinate IDs that an administrator has assigned to a user, from `first` on (`subuid(5)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subordinate {
    pub first: u32,
    pub count: u32,
}

/// Our user and group, as the kernel checks them.
pub fn own() -> (u32, u32) {
    (Uid::effective().as_raw(), Gid::effective().as_raw())
}

/// Moves this process, which has one thread, into a new user namespace, where it has all capabilities and no
/// mapped user yet.
pub fn new_namespace() -> io::Result<()> {
    Ok(unshare(CloneFlags::CLONE_NEWUSER)?)
}

/// Gives the new namespace that we are in one user and one group: ours, under other numbers. That takes no
/// capability, but the right to change groups is lost.
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

/// The IDs that a file such as `/etc/subuid` assigns to a user: the first range of at least `count`.
pub fn subordinate(file: &Path, uid: u32, count: u32) -> Option<Subordinate> {
    let name = User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name);
    given(&fs::read_to_string(file).ok()?, name.as_deref(), uid, count)
}

fn given(text: &str, name: Option<&str>, uid: u32, count: u32) -> Option<Subordinate> {
    let is_ours = |whose: &str| name == Some(whose) || whose.parse() == Ok(uid);
    text.lines().find_map(|line| {
        let mut words = line.trim().split(':');
        let (whose, first, number) =
            (words.next()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        (is_ours(whose) && number >= count).then_some(Subordinate { first, count: number })
    })
}

/// Becomes this user and group, and no other, for good.
pub fn become_user(uid: u32, gid: u32) -> io::Result<()> {
    // Where one group is mapped, the kernel forbids changing the supplementary groups.
    let _ = setgroups(&[]);
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    setresgid(gid, gid, gid)?;
    Ok(setresuid(uid, uid, uid)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_by_name_or_by_number() {
        let text = "root:1:2\n# nothing\nada:100000:65536\n1001:200000:65536\nada:3:\n";
        let given = |name, uid, count| given(text, name, uid, count).map(|found| found.first);
        assert_eq!(given(Some("ada"), 1000, 2), Some(100_000));
        assert_eq!(given(Some("bob"), 1001, 2), Some(200_000));
        assert_eq!(given(None, 1002, 2), None);
        assert_eq!(given(Some("root"), 0, 3), None);
    }
}
