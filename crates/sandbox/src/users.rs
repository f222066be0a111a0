//! Users of a sandbox, and how an unprivileged caller gets several of them.

use super::options::SandboxFailure;
use mesh::{CapturePolicy, Proxy};
use std::io::{self, Read, Write};
use std::path::Path;
use sys::fork::fork;
use sys::user::{self, IdMapRange};
use sys::{exec, process};

pub(super) type ProcessIdentity = (u32, u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Users {
    pub(super) app: ProcessIdentity,
    pub(super) proxy: ProcessIdentity,
    pub(super) root: ProcessIdentity,
    /// True if all three users are equal, because only one is available.
    pub(super) shared: bool,
}

const ROOT: ProcessIdentity = (0, 0);
const APPLICATION: u32 = 1000;

/// Provides the users, and becomes the one that sets the rules; unprivileged callers do so in a user namespace.
pub(super) fn enter(capture: &dyn CapturePolicy) -> Result<Users, SandboxFailure> {
    let own = user::own();
    let known = capture.proxy();
    let taken = (
        known.uids.iter().map(|uid| uid.number()).collect::<Vec<_>>(),
        known.gids.iter().map(|gid| gid.number()).collect::<Vec<_>>(),
    );
    let proxy = proxy(&known);
    if own.0 == 0 && process::holds(process::SYS_ADMIN) == Some(true) {
        let app = (application(APPLICATION, &taken.0), application(APPLICATION, &taken.1));
        return Ok(Users { app, proxy, root: ROOT, shared: false });
    }
    let app = (application(own.0, &taken.0), application(own.1, &taken.1));
    if enter_with_many(own, app, proxy)? {
        return Ok(Users { app, proxy, root: ROOT, shared: false });
    }
    user::map_one(own, app).map_err(SandboxFailure::Users)?;
    Ok(Users { app, proxy: app, root: app, shared: true })
}

/// Assumes an identity permanently. With only one user, it is the current one.
pub(super) fn assume(identity: ProcessIdentity) -> io::Result<()> {
    if user::own() == identity { Ok(()) } else { user::become_user(identity.0, identity.1) }
}

/// The proxy's identity as injected: with TPROXY, root, recognized only by group.
fn proxy(known: &Proxy) -> ProcessIdentity {
    let uid = known.uids.first().map_or(0, |uid| uid.number());
    let gid = known.gids.first().map_or(0, |gid| gid.number());
    if known.listeners.transparent.is_some() { (0, gid) } else { (uid, gid) }
}

/// Number that is neither root's nor the proxy's; `preferred` if possible.
fn application(preferred: u32, taken: &[u32]) -> u32 {
    let free = |number: &u32| *number != 0 && !taken.contains(number);
    let found = [preferred].into_iter().chain(APPLICATION..).find(free);
    found.expect("the proxy does not have all numbers")
}

/// Moves into a new user namespace. If the caller has subordinate IDs, `newuidmap` and `newgidmap` map several users into it;
/// returns true if they did.
fn enter_with_many(
    own: ProcessIdentity,
    app: ProcessIdentity,
    proxy: ProcessIdentity,
) -> Result<bool, SandboxFailure> {
    const NEEDED: u32 = 2;
    let given = |file: &str| user::subordinate(Path::new(file), own.0, NEEDED);
    let programs = exec::find("newuidmap").zip(exec::find("newgidmap"));
    let (Some(uids), Some(gids), Some((newuidmap, newgidmap))) =
        (given("/etc/subuid"), given("/etc/subgid"), programs)
    else {
        user::new_namespace().map_err(SandboxFailure::Users)?;
        return Ok(false);
    };
    let uids = ranges(own.0, app.0, proxy.0, uids);
    let gids = ranges(own.1, app.1, proxy.1, gids);
    // newuidmap must run outside the new namespace, so in another process.
    let own_pid = std::process::id().cast_signed();
    let (mut reader, writer) = io::pipe().map_err(SandboxFailure::Users)?;
    let mut writer = Some(writer);
    let helper = fork(|| {
        drop(writer.take());
        if reader.read(&mut [0]).ok() != Some(1) {
            return NOTHING_MAPPED;
        }
        let runner = exec::Runner::new(exec::TIMEOUT);
        let map = |program: &Path, ranges: &[IdMapRange]| {
            let words = user::words(own_pid, ranges);
            let done = runner.run(program, &words.iter().map(String::as_str).collect::<Vec<_>>());
            done.map_err(|error| tracing::debug!(target: "sandbox", "{error}")).is_ok()
        };
        match map(&newuidmap, &uids) {
            false => NOTHING_MAPPED,
            true if map(&newgidmap, &gids) => ALL_MAPPED,
            true => HALF_MAPPED,
        }
    });
    let helper = helper.map_err(SandboxFailure::Users)?;
    let entered = user::new_namespace().map_err(SandboxFailure::Users);
    if entered.is_ok() {
        // If the helper has ended, its exit code reports why.
        let _ = writer.take().map(|mut writer| writer.write_all(b"\n"));
    }
    drop(writer);
    let code = helper.wait().map_err(SandboxFailure::Users)?;
    entered?;
    match code {
        ALL_MAPPED => user::become_user(ROOT.0, ROOT.1).map(|()| true).map_err(SandboxFailure::Users),
        NOTHING_MAPPED => Ok(false),
        _ => Err(SandboxFailure::HalfMapped),
    }
}

const ALL_MAPPED: u8 = 0;
const NOTHING_MAPPED: u8 = 1;
const HALF_MAPPED: u8 = 2;

/// The application has the caller's number, so that it can read the caller's files; other users get subordinate numbers.
fn ranges(own: u32, app: u32, proxy: u32, first: u32) -> Vec<IdMapRange> {
    let one = |inside, outside| IdMapRange { inside, outside, count: 1 };
    let mut ranges = vec![one(0, first), one(app, own)];
    if proxy != 0 {
        ranges.push(one(proxy, first + 1));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_is_neither_root_nor_the_proxy() {
        assert_eq!(application(501, &[1337]), 501);
        assert_eq!(application(0, &[1337]), 1000);
        assert_eq!(application(1337, &[1337, 1000]), 1001);
    }

    #[test]
    fn no_user_is_mapped_twice() {
        let pairs = |proxy| {
            let ranges = ranges(501, 501, proxy, 100_000);
            ranges.iter().map(|range| (range.inside, range.outside)).collect::<Vec<_>>()
        };
        assert_eq!(pairs(1337), [(0, 100_000), (501, 501), (1337, 100_001)]);
        assert_eq!(pairs(0), [(0, 100_000), (501, 501)]);
    }
}
