//! The lock of a network namespace: whom it keeps out, and who can't take it.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::life_cycle::programs::{among, is_running, programs, sleep};
use crate::life_cycle::stage::{Ended, PATH, REDIRECT, VARIANTS, binary, call, ended, run, succeed};
use crate::support::namespace::Namespace;
use crate::support::setting::Variant;

/// The words of `setpriv` for a process without any right.
const NOBODY: &[&str] = &[
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "--no-new-privs",
];

/// Those for one with the right to change the namespace and none beside it.
const PROXY: &[&str] = &[
    "--reuid=1337",
    "--regid=1337",
    "--clear-groups",
    "--inh-caps=-all,+net_admin",
    "--ambient-caps=+net_admin",
];

/// Locks the namespace's file, which everybody can open, until it is killed.
const HOLDER: &str = "exec 3</proc/self/ns/net; flock --exclusive 3 && echo held && exec sleep 600";

/// A process that ends with its owner.
struct Holder(Child);

impl Drop for Holder {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn adversary(namespace: &Namespace) -> Holder {
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", PATH).args(NOBODY).args(["sh", "-c", HOLDER]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = namespace.run(|| command.spawn()).expect("setpriv starts");
    let mut said = [0; 5];
    let stdout = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut said).expect("it holds the lock");
    assert_eq!(&said, b"held\n");
    Holder(child)
}

/// A run whose program hangs.
fn hanging(namespace: &Namespace) -> Holder {
    let sleep = sleep(200);
    let folder = programs("holds", Variant::Nft, "-restore", &sleep);
    let mut command = among(binary(&call("apply", Variant::Nft, REDIRECT)), &folder);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let holder = Holder(namespace.run(|| command.spawn()).expect("the binary starts"));
    while !is_running(&sleep) {
        thread::sleep(Duration::from_millis(5));
    }
    holder
}

fn as_whom(words: &[&str], arguments: &[&str]) -> Command {
    let ours = binary(arguments);
    let mut command = Command::new("setpriv");
    command.env_clear().env("PATH", PATH).args(words).arg(ours.get_program()).args(ours.get_args());
    command.stdin(Stdio::null());
    command
}

#[test]
fn a_program_without_rights_keeps_nobody_out() {
    let namespace = Namespace::new();
    let _holder = adversary(&namespace);
    let now = ["--lock-wait", "0"];
    for variant in VARIANTS {
        succeed(&namespace, &call("apply", variant, &[REDIRECT, &now].concat()));
        succeed(&namespace, &call("check", variant, REDIRECT));
        succeed(&namespace, &["clean", "--lock-wait", "0"]);
    }
    succeed(&namespace, &[&["apply"], REDIRECT, &now].concat());
    succeed(&namespace, &["clean", "--lock-wait", "0"]);
}

#[test]
fn one_run_keeps_out_all_others_of_its_namespace() {
    let (namespace, other) = (Namespace::new(), Namespace::new());
    let arguments = [&["apply"], REDIRECT, &["--lock-wait", "0"]].concat();
    let mut holder = hanging(&namespace);
    let id = format!("process {}", holder.0.id());
    let refused = |ended: Ended, who: &str| {
        let told = ended.with(1, "the lock is held").stderr;
        let expected = format!("{who} is changing this network namespace; raise --lock-wait or end it");
        assert!(told.contains(&expected), "{told}");
    };
    refused(run(&namespace, &arguments), &id);
    refused(run(&namespace, &["clean", "--lock-wait", "0"]), &id);
    // A container has other processes, another file system, and perhaps one right alone.
    let mut container = Command::new("unshare");
    container.env_clear().env("PATH", PATH).stdin(Stdio::null());
    container.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c"]);
    container.args(["mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\""]);
    container.arg(binary(&[]).get_program()).args(&arguments);
    refused(ended(&namespace, &mut container), "another program");
    refused(ended(&namespace, &mut as_whom(PROXY, &arguments)), "another program");
    succeed(&other, &arguments);
    // Whoever waits gets it.
    let waiting = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| run(&namespace, &[&["apply"], REDIRECT, &["--lock-wait", "20"]].concat()));
        thread::sleep(Duration::from_millis(300));
        holder.0.kill().expect("our child");
        waiting.join().expect("it ends")
    });
    waiting.with(0, "the lock was let go");
    ended(&namespace, &mut as_whom(PROXY, &arguments)).with(0, "nobody holds it");
}

/// Where the right to change anything is missing, that is what is wrong, not the lock.
#[test]
fn a_missing_right_is_told_as_such() {
    let namespace = Namespace::new();
    let arguments = [&["apply"], REDIRECT, &["--lock-wait", "0"]].concat();
    let told = ended(&namespace, &mut as_whom(NOBODY, &arguments)).with(1, "it may not").stderr;
    assert!(told.contains("CAP_NET_ADMIN is needed") && !told.contains("--lock-wait"), "{told}");
}
