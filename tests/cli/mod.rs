//! The program as its callers see it: arguments and variables in, exit code and two streams out.
//!
//! Nothing here sets a rule: every call previews, is refused, or runs in a network namespace of its own.

mod forms;
mod fresh;
mod output;
mod refused;
mod surroundings;
mod warnings;

use assert_cmd::{Command, cargo::cargo_bin};
use mesh::Mesh;
use mesh::settings::{self, Row, Setting};
use std::{
    ffi::OsStr,
    fs, io,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicUsize, Ordering},
};

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<process::Output> for Ended {
    fn from(output: process::Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

impl Ended {
    /// The preview, which must have worked.
    fn rules(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert!(self.stdout.starts_with("# iptables-restore\n"), "{}", self.stdout);
        &self.stdout
    }
}

/// The settings that `istio-iptables` takes.
fn settings() -> impl Iterator<Item = &'static Row> {
    let own = [Setting::Format, Setting::AllowHostNamespace, Setting::Mesh, Setting::Replace];
    settings::of(Mesh::default())
        .filter(move |row| !row.topic.is_of_one_command() && !own.contains(&row.setting))
}

/// Facts of a pod with an IPv4 address and without DNS servers.
const POD: [&str; 4] = ["--pod-ips", "10.1.2.3", "--dns-servers", ""];

fn bare() -> Command {
    let mut command = Command::cargo_bin("sidecar-init").expect("the binary");
    command.env_clear();
    command
}

/// Previews the rules of an IPv4 pod.
fn preview<A: AsRef<OsStr>, V: AsRef<OsStr>>(arguments: &[A], variables: &[(&str, V)]) -> Ended {
    let mut command = bare();
    command.args(["istio-iptables", "--dry-run"]).args(POD).args(arguments);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.output().expect("it runs").into()
}

/// The preview for these arguments.
fn rules(arguments: &[&str]) -> String {
    preview::<_, &str>(arguments, &[]).rules().to_owned()
}

/// Runs another program with the binary as its last argument but for `arguments`, in a network namespace
/// of its own, where a mistake can't set rules of this machine.
fn apart(before: &[&str], binary: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Ended {
    let mut command = process::Command::new("unshare");
    command.arg("-n").args(before).arg(binary).arg("istio-iptables").args(arguments);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).envs(variables.iter().copied());
    command.output().expect("unshare runs").into()
}

fn binary() -> PathBuf {
    cargo_bin("sidecar-init")
}

/// A folder that anybody may read, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("sidecar-init-cli-{}-{number}", process::id()));
        fs::create_dir(&path).expect("a new folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("readable");
        Self(path)
    }

    /// The binary under another name.
    fn link(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        symlink(binary(), &path).expect("a link");
        path
    }

    /// A pipe that nobody reads or writes.
    fn pipe(&self) -> String {
        let path = self.0.join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        path.display().to_string()
    }

    /// A copy of the binary that anybody may run.
    fn copy(&self) -> PathBuf {
        let path = self.0.join("sidecar-init");
        crate::support::program::copy(binary(), &path);
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left behind in the temporary folder harms nobody.
        let _: io::Result<()> = fs::remove_dir_all(&self.0);
    }
}
