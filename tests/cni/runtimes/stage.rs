//! A stage for a runtime: separate mount, network and PID namespaces, and a folder for its files. Runtimes' fixed paths (`/run`,
//! `/var/lib`) are empty and private there, so the machine's files are neither read nor changed. The kernel ends all processes of
//! a namespace with its first one, which ends when the stage is dropped, when the test process ends, or on timeout. Mounts and
//! network devices end with them. Only control groups are the machine's; groups made here have the stage's name.

use crate::support::folder::Folder;
use crate::support::namespace::Namespace;
use crate::support::program::{Outcome, fed};
use crate::support::wait::poll;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    fs,
    fs::File,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{self, Child, Command, Stdio},
    thread,
    time::Duration,
};

/// Time limits in seconds: of a stage, and of a program on it.
const LIFE: &str = "300";
const TIMEOUT: &str = "60";
const WAIT: Duration = Duration::from_secs(30);
const CGROUPS: &str = "/sys/fs/cgroup";

/// Sets up the stage and runs the first program. `/proc` is still the machine's when the shell reads its process ID. Duplicate
/// address detection would delay IPv6 by a second or two.
const SET: &str = "read -r pid rest </proc/self/stat \
    && mount -t proc proc /proc && mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /var/lib \
    && echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad && ip link set lo up && echo \"$pid\" && exec timeout --signal=KILL \"$@\"";

pub(crate) struct Stage {
    pub(crate) name: String,
    keeper: Child,
    first: Pid,
    pub(crate) folder: Folder,
}

impl Stage {
    /// A stage with this program as its first process; output goes to a file. Names must be unique.
    pub(crate) fn new(name: &str, prepare: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let folder = Folder::new(name);
        let name = format!("sidecar-init-{name}-{}", process::id());
        let program = prepare(&folder);
        let log = File::create(folder.join("first.log")).expect("a file");
        let mut keeper = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"])
            .args(["sh", "-c", SET, "sh", LIFE])
            .args(program)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("starting `setpriv` failed ({error}): run scripts/setup"));
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().expect("a pipe")).read_line(&mut line).expect("UTF-8");
        let Ok(first) = line.trim().parse().map(Pid::from_raw) else {
            let printed = fs::read_to_string(folder.join("first.log")).unwrap_or_default();
            let _ = keeper.wait();
            panic!("setting a stage failed (root is needed): {printed}");
        };
        Self { name, keeper, first, folder }
    }

    pub(crate) fn output(&self, call: &[&str], variables: &[(&str, &str)], input: &str) -> Outcome {
        let mut command = Command::new("timeout");
        command.args(["--signal=KILL", TIMEOUT, "nsenter", "--mount", "--net", "--pid", "--target"]);
        command.arg(self.first.to_string()).args(call).envs(variables.iter().copied());
        fed(command, input)
    }

    pub(crate) fn stdout(&self, call: &[&str], variables: &[(&str, &str)]) -> String {
        let output = self.output(call, variables, "");
        assert!(output.succeeded(), "`{}` failed: {output:?}\n{}", call.join(" "), self.logs());
        output.stdout.trim().to_owned()
    }

    /// A path on the stage, seen from outside. `/var/run` is a link that would lead to the machine's `/run`.
    pub(crate) fn seen(&self, path: &str) -> PathBuf {
        let path = path.strip_prefix("/var").filter(|path| path.starts_with("/run/")).unwrap_or(path);
        PathBuf::from(format!("/proc/{}/root{path}", self.first))
    }

    /// The stage's own network, outside of all containers.
    pub(crate) fn outside(&self) -> Namespace {
        open(Path::new(&format!("/proc/{}/ns/net", self.first)))
    }

    pub(crate) fn namespace(&self, path: &str) -> Namespace {
        open(&self.seen(path))
    }

    pub(crate) fn logs(&self) -> String {
        let logs = ["first.log", "cni.log"].map(|name| {
            let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
            format!("{name}:\n{text}")
        });
        logs.concat()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The keeper ends after the first process, which ends after all others.
        let _ = kill(self.first, Signal::SIGKILL);
        let gone = until(|| self.keeper.try_wait().ok().flatten());
        if gone.is_none() {
            let _ = self.keeper.kill();
        }
        remove_cgroups(&self.name);
        assert!(gone.is_some() || thread::panicking(), "a process on the stage does not end");
    }
}

fn open(path: &Path) -> Namespace {
    let file = File::open(path);
    file.unwrap_or_else(|error| panic!("opening {} failed: {error}", path.display())).into()
}

pub(crate) fn until<T>(ask: impl FnMut() -> Option<T>) -> Option<T> {
    poll(WAIT, ask)
}

/// Removes the groups of this name from every hierarchy: several in version 1, one in version 2.
fn remove_cgroups(name: &str) {
    let hierarchies = fs::read_dir(CGROUPS).into_iter().flatten().flatten().map(|entry| entry.path());
    for hierarchy in hierarchies.chain([PathBuf::from(CGROUPS)]) {
        remove_cgroup(&hierarchy.join(name));
    }
}

/// A group's files can't be removed separately; they go with the group once it has no subgroups.
fn remove_cgroup(group: &Path) {
    let inner = fs::read_dir(group).into_iter().flatten().flatten();
    for path in inner.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        remove_cgroup(&path);
    }
    let _ = fs::remove_dir(group);
}
