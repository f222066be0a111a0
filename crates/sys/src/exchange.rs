//! Two files change places at once.

use nix::libc;
use std::{ffi::CString, io, os::unix::ffi::OsStrExt, path::Path};

/// Exchanges the names of two files, atomically. False where the file system can't do it.
#[expect(unsafe_code, reason = "nix has renameat2 for one C library only")]
pub fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    let [one, other] = [one, other].map(|path| CString::new(path.as_os_str().as_bytes()));
    let (one, other) = (one?, other?);
    // By number, as not every C library has a function for it.
    // SAFETY: both paths are strings that end with a zero byte and outlive the call, which keeps neither.
    let done = unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            libc::AT_FDCWD,
            one.as_ptr(),
            libc::AT_FDCWD,
            other.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if done == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP) => Ok(false),
        _ => Err(error),
    }
}
