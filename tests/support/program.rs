//! Programs that tests put somewhere to run them.
//!
//! Other processes write them. A file that is open for writing in this one is open for a moment in whatever another test starts
//! meanwhile, and the kernel runs no file that is (`ETXTBSY`).

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program, for everybody to run.
pub(crate) fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut install = Command::new("/usr/bin/install");
    let status = install.args(["-m", "755"]).arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(status.expect("install starts").success(), "{}", to.as_ref().display());
}

/// Writes a script, for everybody to run.
pub(crate) fn script(path: impl AsRef<Path>, text: impl AsRef<str>) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "/bin/cat >\"$0\" && /bin/chmod 755 \"$0\""]).arg(path.as_ref()).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("the shell starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_ref().as_bytes()).expect("the shell reads");
    drop(input);
    assert!(child.wait().expect("it ends").success(), "{}", path.as_ref().display());
}
