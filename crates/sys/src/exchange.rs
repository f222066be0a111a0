//! Two files change places at once.

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use std::{io, path::Path};

/// Exchanges the names of two files, atomically. False where the file system can't do it.
pub fn exchange(one: &Path, other: &Path) -> io::Result<bool> {
    match renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE) {
        Ok(()) => Ok(true),
        Err(Errno::NOSYS | Errno::INVAL | Errno::OPNOTSUPP) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
