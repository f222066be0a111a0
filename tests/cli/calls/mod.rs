//! The program as its callers see it: arguments and variables in, exit code and two streams out.
//!
//! Nothing here sets a rule: every call previews, is refused, or runs in a network namespace of its own.

mod forms;
mod fresh;
mod output;
mod refused;
mod surroundings;
mod warnings;

use crate::support::folder::Folder;
use crate::support::program::{BINARY, Outcome, Run, bare};
use mesh::Mesh;
use mesh::settings::{self, Setting, SettingRow};
use std::{
    ffi::OsStr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process,
};

/// A preview that must have worked.
trait Preview {
    fn rules(&self) -> &str;
}

impl Preview for Outcome {
    fn rules(&self) -> &str {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert!(self.stdout.starts_with("# iptables-restore\n"), "{}", self.stdout);
        &self.stdout
    }
}

fn settings() -> impl Iterator<Item = &'static SettingRow> {
    let own = [Setting::Format, Setting::AllowHostNamespace, Setting::Mesh, Setting::Replace];
    settings::of(Mesh::default())
        .filter(move |row| !row.topic.is_of_one_command() && !own.contains(&row.setting))
}

/// Facts of a pod with an IPv4 address and without DNS servers.
const POD: [&str; 4] = ["--pod-ips", "10.1.2.3", "--dns-servers", ""];

fn preview<A: AsRef<OsStr>, V: AsRef<OsStr>>(arguments: &[A], variables: &[(&str, V)]) -> Outcome {
    let mut command = bare(&["istio-iptables", "--dry-run"]);
    command.args(POD).args(arguments);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    command.outcome()
}

fn rules(arguments: &[&str]) -> String {
    preview::<_, &str>(arguments, &[]).rules().to_owned()
}

/// Runs another program with the binary as its last argument but for `arguments`, in a network namespace
/// of its own, where a mistake can't set rules of this machine.
fn apart(before: &[&str], binary: &Path, arguments: &[&str], variables: &[(&str, &OsStr)]) -> Outcome {
    let mut command = process::Command::new("unshare");
    command.arg("-n").args(before).arg(binary).arg("istio-iptables").args(arguments);
    let path = std::env::var_os("PATH").unwrap_or_default();
    command.env_clear().env("PATH", path).envs(variables.iter().copied());
    command.outcome()
}

fn link(folder: &Folder, name: &str) -> PathBuf {
    let path = folder.join(name);
    symlink(BINARY, &path).expect("a link");
    path
}

/// A pipe that nothing reads or writes.
fn pipe(folder: &Folder) -> String {
    let path = folder.join("pipe");
    nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    path.display().to_string()
}
