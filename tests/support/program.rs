//! Programs run by tests, including the binary under test, and programs that tests install.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use super::folder::Folder;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_sidecar-init");

pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Result of a program; without a code if a signal ended it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Outcome {
    fn from(Output { status, stdout, stderr }: Output) -> Outcome {
        let text = |bytes| String::from_utf8(bytes).unwrap_or_else(|error| panic!("no UTF-8: {error:?}"));
        Outcome { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

impl Outcome {
    pub(crate) fn succeeded(&self) -> bool {
        self.code == Some(0)
    }

    #[track_caller]
    pub(crate) fn with(self, code: i32, what: &str) -> Outcome {
        assert_eq!(self.code, Some(code), "{what}\n{}{}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn success(self) -> Outcome {
        self.with(0, "a call that must succeed")
    }

    pub(crate) fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }
}

pub(crate) trait Run {
    fn outcome(&mut self) -> Outcome;
}

impl Run for Command {
    fn outcome(&mut self) -> Outcome {
        match self.output() {
            Ok(output) => output.into(),
            Err(error) => panic!("starting {self:?} failed ({error}): is it installed?"),
        }
    }
}

pub(crate) fn binary(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().env("PATH", PATH).args(arguments).stdin(Stdio::null());
    command
}

/// A command run as another user with only these capabilities, such as `,+net_admin` or none.
pub(crate) fn as_user(id: u32, capabilities: &str, words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", PATH).stdin(Stdio::null());
    command.args([format!("--reuid={id}"), format!("--regid={id}")]);
    let sets = ["inh-caps", "ambient-caps", "bounding-set"];
    command.args(sets.map(|set| format!("--{set}=-all{capabilities}")));
    command.args(["--clear-groups", "--no-new-privs"]).args(words);
    command
}

pub(crate) fn output(program: &str, arguments: &[&str], input: &str) -> Outcome {
    let mut command = Command::new(program);
    command.args(arguments);
    fed(command, input)
}

pub(crate) fn fed(command: Command, input: impl Into<Vec<u8>>) -> Outcome {
    let ended = assert_cmd::Command::from_std(command).write_stdin(input).output();
    ended.unwrap_or_else(|error| panic!("starting a program failed ({error}): is it installed?")).into()
}

pub(crate) fn finish(mut child: Child, input: impl AsRef<[u8]>) -> Outcome {
    // A program that stops reading early reports the reason in its exit status.
    let _ = child.stdin.take().expect("standard input is piped").write_all(input.as_ref());
    child.wait_with_output().expect("the program ends").into()
}

#[track_caller]
pub(crate) fn stdout(program: &str, arguments: &[&str], input: &str) -> String {
    output(program, arguments, input).with(0, &format!("`{program} {}`\n{input}", arguments.join(" "))).stdout
}

pub(crate) fn is_running(command: &str) -> bool {
    let mut search = Command::new("pgrep");
    search.env("PATH", PATH).args(["-f", &format!("^{command}$")]).outcome().succeeded()
}

/// Copies a program, executable for all users. Another process writes it, here and in [`script`]. A file open for writing in this
/// process is open for a moment in programs that other tests start meanwhile, and the kernel does not execute such a file
/// (`ETXTBSY`).
pub(crate) fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) {
    let mut install = Command::new("/usr/bin/install");
    let status = install.args(["-m", "755"]).arg(from.as_ref()).arg(to.as_ref()).status();
    assert!(status.expect("install starts").success(), "{}", to.as_ref().display());
}

pub(crate) fn folder_with(program: impl AsRef<Path>, name: &str) -> Folder {
    let folder = Folder::new(name);
    copy(program, folder.join("sidecar-init"));
    folder
}

pub(crate) fn script(path: impl AsRef<Path>, text: impl AsRef<str>) {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "/bin/cat >\"$0\" && /bin/chmod 755 \"$0\""]).arg(path.as_ref()).stdin(Stdio::piped());
    let mut child = shell.spawn().expect("the shell starts");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_ref().as_bytes()).expect("the shell reads");
    drop(input);
    assert!(child.wait().expect("the shell ends").success(), "{}", path.as_ref().display());
}
