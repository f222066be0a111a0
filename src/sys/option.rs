//! Socket options that the crate `nix` does not name.

use nix::{errno::Errno, libc};
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Sets an option that takes a number to 1.
///
/// # Errors
/// When the kernel refuses, or does not know the option.
#[expect(unsafe_code, reason = "nix has no NETLINK_EXT_ACK")]
pub(super) fn switch_on(socket: &impl AsFd, level: libc::c_int, option: libc::c_int) -> io::Result<()> {
    static ON: libc::c_int = 1;
    const LENGTH: libc::socklen_t = 4;
    // SAFETY: the descriptor is open while `socket` is borrowed, and the kernel reads LENGTH bytes, which is the
    // size of ON.
    let result = unsafe {
        libc::setsockopt(socket.as_fd().as_raw_fd(), level, option, (&raw const ON).cast(), LENGTH)
    };
    Ok(Errno::result(result).map(drop)?)
}
