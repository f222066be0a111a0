//! Tables of legacy iptables, read through socket options. Needs neither a program nor `/proc`.

use super::header::*;
use super::message::{text, u32_at};
use nix::errno::Errno;
use nix::libc::{self, SOL_IP, SOL_IPV6};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use rules::{Family, Hook};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::{collections::BTreeMap, io};

/// `char name[XT_TABLE_MAXNAMELEN]`, the start of each structure.
const NAME: usize = 32;
const GET_ENTRIES: usize = 40;
/// `struct ipt_getinfo`: name, a bit per hook, two offsets per hook, number of entries, their size.
const GETINFO: usize = 84;
const VALID_HOOKS: usize = 32;
const HOOK_ENTRIES: usize = 36;
const UNDERFLOWS: usize = 56;
const NUM_ENTRIES: usize = 76;
const SIZE: usize = 80;
/// `NF_INET_NUMHOOKS`, in numerical order.
const HOOKS: usize = Hook::ALL.len();
/// Offset in `struct xt_entry_target`, after its size.
const TARGET_NAME: usize = 2;
const TARGET_NAME_LENGTH: usize = 29;
/// Offset in `struct xt_standard_target`, after the target's name and size; the name in `struct xt_error_target`.
const VERDICT: usize = 32;
/// `XT_ERROR_TARGET`, which begins every chain that rules call, and ends a table.
const ERROR: &str = "ERROR";
/// A kernel verdict as stored in targets: negative, unlike an entry's offset.
const ACCEPT: i32 = -NF_ACCEPT.cast_signed() - 1;

/// True if a table of our network namespace holds more than empty base chains that accept. If the kernel has the table's module
/// but the namespace lacks the table, the request creates it, as listing does. Needs `CAP_NET_ADMIN`.
pub fn holds_anything(family: Family, table: &str) -> io::Result<bool> {
    use nix::libc::{EAGAIN, ENOENT, ENOPROTOOPT};
    let Some(socket) = opened(family)? else { return Ok(false) };
    // Requesting counts would load a missing table's module.
    if let Err(error) = entries(&socket, family, table, 0) {
        match error.raw_os_error() {
            Some(EAGAIN) => {}
            // The table and its module are missing, or even the base module of all tables.
            Some(ENOENT | ENOPROTOOPT) => return Ok(false),
            _ => return Err(error),
        }
    }
    let info = info(&socket, family, table)?;
    let number = |at| u32_at(&info, at).expect("a number of the structure, which is longer");
    let hooks: Vec<usize> = (0..HOOKS).filter(|hook| number(VALID_HOOKS) >> hook & 1 == 1).collect();
    // A policy for each hook, and an entry that ends the table.
    if number(NUM_ENTRIES) as usize != hooks.len() + 1 {
        return Ok(true);
    }
    let content = match entries(&socket, family, table, number(SIZE)) {
        // The table has changed meanwhile.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
        other => other?,
    };
    let accepts =
        |hook: &usize| policy(family, &content, number(HOOK_ENTRIES + 4 * hook) as usize) == Some(ACCEPT);
    Ok(!hooks.iter().all(accepts))
}

/// True if our network namespace can have a table, which the kernel then creates. A missing family counts as available.
pub fn is_to_be_had(family: Family, table: &str) -> bool {
    match opened(family) {
        Ok(Some(socket)) => info(&socket, family, table).is_ok(),
        Ok(None) => true,
        Err(_) => false,
    }
}

/// Number of rules in each chain of a table. Like [`holds_anything`], the request may create the table.
pub fn counts(family: Family, table: &str) -> io::Result<BTreeMap<String, usize>> {
    const TRIES: usize = 10;
    let Some(socket) = opened(family)? else { return Ok(BTreeMap::new()) };
    for _ in 0..TRIES {
        let info = info(&socket, family, table)?;
        let size = u32_at(&info, SIZE).expect("a number of the structure, which is longer");
        match entries(&socket, family, table, size) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            content => return counted(family, &info, &content?).ok_or(io::ErrorKind::InvalidData.into()),
        }
    }
    Err(io::ErrorKind::Interrupted.into())
}

/// Counts a table's rules per chain. A base chain lies between the two offsets of its hook, and its last entry is its policy. Any
/// other chain begins with its name and ends with a rule that returns.
fn counted(family: Family, info: &[u8], entries: &[u8]) -> Option<BTreeMap<String, usize>> {
    let hook_name = |hook: usize| Hook::ALL[hook].name();
    let hooks = u32_at(info, VALID_HOOKS)?;
    let place = |at: usize, base: usize| {
        let is_here = |hook: &usize| {
            hooks >> hook & 1 == 1
                && u32_at(info, base + 4 * hook).is_some_and(|offset| offset as usize == at)
        };
        (0..HOOKS).find(is_here)
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let (mut at, mut chain) = (0, None);
    while at < entries.len() {
        let entry = entries.get(at..)?;
        let number = |from: usize| entry.get(from..)?.first_chunk().copied().map(u16::from_ne_bytes);
        let target = entry.get(usize::from(number(target_offset(family))?)..)?;
        let name = text(target.get(TARGET_NAME..TARGET_NAME + TARGET_NAME_LENGTH)?);
        if let Some(hook) = place(at, HOOK_ENTRIES) {
            chain = Some(hook_name(hook).to_owned());
            counts.insert(hook_name(hook).to_owned(), 0);
        } else if name == ERROR {
            chain = Some(text(target.get(VERDICT..)?).to_owned());
            counts.extend(chain.clone().map(|chain| (chain, 0)));
        }
        let is_last = place(at, UNDERFLOWS).is_some();
        if let Some(count) =
            chain.as_ref().filter(|_| name != ERROR && !is_last).and_then(|name| counts.get_mut(name))
        {
            *count += 1;
        }
        let length = usize::from(number(target_offset(family) + 2)?);
        at = at.checked_add(length).filter(|next| *next > at)?;
    }
    counts.remove(ERROR);
    // In a table without that hook, a user-defined chain may have a hook's name.
    let is_base = |name: &str| (0..HOOKS).any(|hook| hooks >> hook & 1 == 1 && hook_name(hook) == name);
    for (name, count) in &mut counts {
        if !is_base(name) {
            *count = count.checked_sub(1)?;
        }
    }
    Some(counts)
}

/// Returns `None` if the kernel lacks the family.
fn opened(family: Family) -> io::Result<Option<OwnedFd>> {
    let domain = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    match socket(domain, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None) {
        Err(Errno::EAFNOSUPPORT) => Ok(None),
        other => Ok(Some(other?)),
    }
}

fn policy(family: Family, entries: &[u8], entry: usize) -> Option<i32> {
    let entry = entries.get(entry..)?;
    let target = entry.get(target_offset(family)..)?.first_chunk().copied().map(u16::from_ne_bytes)?;
    entry.get(usize::from(target) + VERDICT..)?.first_chunk().copied().map(i32::from_ne_bytes)
}

/// `target_offset` in `struct ipt_entry` and in `struct ip6t_entry`; `next_offset` follows it.
const fn target_offset(family: Family) -> usize {
    match family {
        Family::V4 => 88,
        Family::V6 => 140,
    }
}

fn info(socket: &OwnedFd, family: Family, table: &str) -> io::Result<Vec<u8>> {
    let mut info = vec![0; GETINFO];
    get(socket, family, IPT_SO_GET_INFO, table, &mut info)?;
    Ok(info)
}

fn entries(socket: &OwnedFd, family: Family, table: &str, size: u32) -> io::Result<Vec<u8>> {
    let mut content = vec![0; GET_ENTRIES + size as usize];
    content[NAME..NAME + 4].copy_from_slice(&size.to_ne_bytes());
    get(socket, family, IPT_SO_GET_ENTRIES, table, &mut content)?;
    Ok(content.split_off(GET_ENTRIES))
}

/// Reads an option selected by the content of `value`, which the kernel overwrites.
#[expect(unsafe_code, reason = "nix has no option whose value is also the request")]
fn get(socket: &impl AsFd, family: Family, option: i32, table: &str, value: &mut [u8]) -> io::Result<()> {
    // The kernel ends the name with a zero.
    let name = &table.as_bytes()[..table.len().min(NAME - 1)];
    value[..name.len()].copy_from_slice(name);
    let level = if family == Family::V4 { SOL_IP } else { SOL_IPV6 };
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    let descriptor = socket.as_fd().as_raw_fd();
    // SAFETY: the descriptor is open while `socket` is borrowed; the kernel reads and writes no more than `length` bytes, which
    // is the size of `value`, and the length itself, which is there until the call returns.
    let result =
        unsafe { libc::getsockopt(descriptor, level, option, value.as_mut_ptr().cast(), &raw mut length) };
    Ok(Errno::result(result).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct ipt_entry`, a target without matches before it, and the bytes after the target's header.
    fn entry(target: &str, rest: [u8; 8]) -> Vec<u8> {
        const LENGTH: usize = 112;
        let mut entry = vec![0; LENGTH + VERDICT];
        entry[LENGTH + TARGET_NAME..][..target.len()].copy_from_slice(target.as_bytes());
        entry.extend(rest);
        let ends = [LENGTH, entry.len()].map(|end| u16::try_from(end).expect("it is short").to_ne_bytes());
        let at = target_offset(Family::V4);
        entry[at..at + 4].copy_from_slice(&ends.concat());
        entry
    }

    #[test]
    fn user_chain_may_have_the_name_of_a_missing_hook() {
        const OUTPUT: usize = 3;
        let rule = || entry("", [0; 8]);
        let entries = [
            rule(),
            rule(),
            entry(ERROR, *b"FORWARD\0"),
            rule(),
            rule(),
            rule(),
            entry(ERROR, *b"ERROR\0\0\0"),
        ];
        let policy = u32::try_from(entries[0].len()).expect("it is short");
        let mut info = vec![0; GETINFO];
        info[VALID_HOOKS..VALID_HOOKS + 4].copy_from_slice(&(1_u32 << OUTPUT).to_ne_bytes());
        let underflow = UNDERFLOWS + 4 * OUTPUT;
        info[underflow..underflow + 4].copy_from_slice(&policy.to_ne_bytes());
        let expected = [("FORWARD", 2), ("OUTPUT", 1)].map(|(chain, count)| (chain.to_owned(), count));
        assert_eq!(counted(Family::V4, &info, &entries.concat()), Some(BTreeMap::from(expected)));
    }
}
