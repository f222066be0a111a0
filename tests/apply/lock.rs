//! The lock of a network namespace: whom it keeps out, and who can't take it.

use crate::support::program::{BINARY, Outcome, PATH, as_user, binary, is_running};
use crate::support::wait;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::apply::programs::{among, programs, sleep};
use crate::apply::stage::{REDIRECT, VARIANTS, call};
use crate::support::namespace::{Namespace, run, succeed};
use crate::support::setting::Variant;
use testkit::running::Running;

const NOBODY: (u32, &str) = (65534, "");
/// With the right to change the namespace and none beside it.
const PROXY: (u32, &str) = (1337, ",+net_admin");

/// Locks the namespace's file, which everybody can open, until it is killed.
const HOLDER: &str = "exec 3</proc/self/ns/net; flock --exclusive 3 && echo held && exec sleep 600";

fn adversary(namespace: &Namespace) -> Running {
    let mut command = as_user(NOBODY.0, NOBODY.1, &["sh", "-c", HOLDER]);
    command.stdout(Stdio::piped());
    let mut child = namespace.run(|| command.spawn()).expect("setpriv starts");
    let mut output = [0; 5];
    let stdout = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut output).expect("it holds the lock");
    assert_eq!(&output, b"held\n");
    Running(child)
}

/// A run whose program hangs.
fn hanging(namespace: &Namespace) -> Running {
    let sleep = sleep(200);
    let folder = programs("holds", Variant::Nft, "-restore", &sleep);
    let mut command = among(binary(&call("apply", Variant::Nft, REDIRECT)), &folder);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let holder = Running(namespace.run(|| command.spawn()).expect("the binary starts"));
    wait::until(&sleep, || is_running(&sleep));
    holder
}

fn as_whom((id, capabilities): (u32, &str), arguments: &[&str]) -> Command {
    as_user(id, capabilities, &[&[BINARY], arguments].concat())
}

#[test]
fn a_program_without_rights_keeps_nobody_out() {
    let namespace = Namespace::new();
    let _holder = adversary(&namespace);
    let now = ["--lock-wait", "0"];
    for variant in VARIANTS {
        succeed(&namespace, &call("apply", variant, &[REDIRECT, &now].concat()));
        succeed(&namespace, &call("diff", variant, REDIRECT));
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
    let id = format!("process {}", holder.id());
    let refused = |ended: Outcome, who: &str| {
        let printed = ended.with(1, "the lock is held").stderr;
        let expected = format!("{who} is changing this network namespace; raise --lock-wait or end it");
        assert!(printed.contains(&expected), "{printed}");
    };
    refused(run(&namespace, &arguments), &id);
    refused(run(&namespace, &["clean", "--lock-wait", "0"]), &id);
    // A container has other processes, another file system, and perhaps one right alone.
    let mut container = Command::new("unshare");
    container.env_clear().env("PATH", PATH).stdin(Stdio::null());
    container.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c"]);
    container.args(["mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\""]);
    container.arg(binary(&[]).get_program()).args(&arguments);
    refused(namespace.outcome(&mut container), "another program");
    refused(namespace.outcome(&mut as_whom(PROXY, &arguments)), "another program");
    succeed(&other, &arguments);
    // Whoever waits gets it.
    let waiting = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| run(&namespace, &[&["apply"], REDIRECT, &["--lock-wait", "20"]].concat()));
        thread::sleep(Duration::from_millis(300));
        holder.kill().expect("our child");
        waiting.join().expect("it ends")
    });
    waiting.with(0, "the lock was let go");
    namespace.outcome(&mut as_whom(PROXY, &arguments)).with(0, "nobody holds it");
}

#[test]
fn a_missing_right_is_told_as_such() {
    let namespace = Namespace::new();
    let arguments = [&["apply"], REDIRECT, &["--lock-wait", "0"]].concat();
    let printed = namespace.outcome(&mut as_whom(NOBODY, &arguments)).with(1, "it may not").stderr;
    assert!(printed.contains("CAP_NET_ADMIN is required") && !printed.contains("--lock-wait"), "{printed}");
}
