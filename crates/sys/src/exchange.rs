//! Atomic exchange of two files.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::{io, path::Path};

/// Exchanges two file names atomically. Returns false if the file system does not support it.
pub fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
