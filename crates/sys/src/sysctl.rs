//! Settings of the network namespace that the thread is in (`/proc/sys/net`).

use std::{fs, io, path::Path};

/// Seconds that conntrack remembers a TCP connection that one side has closed.
pub const CLOSE_WAIT: &str = "netfilter/nf_conntrack_tcp_timeout_close_wait";

/// Sets a setting below `/proc/sys/net`, and returns what it was.
///
/// # Errors
/// When it is not there (that of a kernel module that is not loaded), can't be written (a container's `/proc/sys` may be
/// for reading only), or the kernel does not take the value.
pub fn set(name: &str, value: &str) -> io::Result<String> {
    let path = Path::new("/proc/sys/net").join(name);
    let before = fs::read_to_string(&path)?.trim().to_owned();
    if before != value {
        fs::write(&path, value)?;
    }
    Ok(before)
}
