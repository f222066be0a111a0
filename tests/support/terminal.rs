//! Pseudo-terminals.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};

use nix::fcntl::OFlag;
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt};

/// A user's end and a program's end of a terminal with `columns` columns. Unlike with `openpty`, programs that other tests start
/// meanwhile inherit neither end, so reading the first ends when the last program closes the second.
pub(crate) fn terminal(columns: u16) -> (File, File) {
    let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC).expect("a pseudo-terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a pseudo-terminal");
    let name = ptsname_r(&master).expect("its name");
    let slave = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(name);
    let slave = slave.expect("the other end");
    let mut stty = Command::new("stty");
    stty.args(["rows", "100", "cols", &columns.to_string()]).stdin(copy(&slave));
    assert!(stty.status().expect("stty starts").success(), "stty {columns}");
    (OwnedFd::from(master).into(), slave)
}

pub(crate) fn copy(end: &File) -> Stdio {
    end.try_clone().expect("a descriptor is free").into()
}

/// Output of a command in a terminal of this width, standard error included, and true if the command succeeded.
pub(crate) fn displayed(columns: u16, mut command: Command) -> (String, bool) {
    let (mut master, slave) = terminal(columns);
    command.stdin(copy(&slave)).stdout(copy(&slave)).stderr(copy(&slave));
    let mut child = command.spawn().expect("the program starts");
    drop((command, slave));
    let (mut bytes, mut piece) = (Vec::new(), [0; 4096]);
    // Reading fails once the last program has closed the other end.
    while let Ok(length @ 1..) = master.read(&mut piece) {
        bytes.extend(&piece[..length]);
    }
    let succeeded = child.wait().expect("the program ends").success();
    (String::from_utf8(bytes).expect("UTF-8").replace("\r\n", "\n"), succeeded)
}
