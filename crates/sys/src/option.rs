//! Socket options that the crate `nix` does not name.

use nix::{errno::Errno, libc};
use std::{
    io,
    os::fd::{AsFd, AsRawFd},
};

/// Sets an option that takes a number to 1.
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

/// Reads an option that the kernel looks up by the content of `value`, and writes into `value`.
#[expect(unsafe_code, reason = "nix has no option whose value is a question as well")]
pub(super) fn get(
    socket: &impl AsFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &mut [u8],
) -> io::Result<()> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open while `socket` is borrowed; the kernel reads and writes no more than `length` bytes,
    // which is the size of `value`, and the length itself, which is there until the call returns.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Ok(Errno::result(result).map(drop)?)
}
