//! A network namespace's lock: runs that it excludes, and users without access to it.

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
/// User with the capability to change the namespace and no other.
const PROXY: (u32, &str) = (1337, ",+net_admin");

/// Locks the namespace's file, which every user can open, until killed.
const HOLDER: &str = "exec 3</proc/self/ns/net; flock --exclusive 3 && echo held && exec sleep 600";

fn adversary(namespace: &Namespace) -> Running {
    let mut command = as_user(NOBODY.0, NOBODY.1, &["sh", "-c", HOLDER]);
    command.stdout(Stdio::piped());
    let mut child = namespace.run(|| command.spawn()).expect("setpriv starts");
    let mut output = [0; 5];
    let stdout = child.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(stdout, &mut output).expect("the lock is held");
    assert_eq!(&output, b"held\n");
    Running(child)
}

fn hanging(namespace: &Namespace) -> Running {
    let sleep = sleep(200);
    let folder = programs("holds", Variant::Nft, "-restore", &sleep);
    let mut command = among(binary(&call("apply", Variant::Nft, REDIRECT)), &folder);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let holder = Running(namespace.run(|| command.spawn()).expect("the binary starts"));
    wait::until(&sleep, || is_running(&sleep));
    holder
}

fn as_identity((id, capabilities): (u32, &str), arguments: &[&str]) -> Command {
    as_user(id, capabilities, &[&[BINARY], arguments].concat())
}

#[test]
fn unprivileged_lock_blocks_no_run() {
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
fn one_run_blocks_others_of_its_namespace() {
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
    // A container has other processes, another file system, and perhaps a single capability.
    let mut container = Command::new("unshare");
    container.env_clear().env("PATH", PATH).stdin(Stdio::null());
    container.args(["--pid", "--fork", "--mount", "--mount-proc", "sh", "-c"]);
    container.args(["mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\""]);
    container.arg(binary(&[]).get_program()).args(&arguments);
    refused(namespace.outcome(&mut container), "another program");
    refused(namespace.outcome(&mut as_identity(PROXY, &arguments)), "another program");
    succeed(&other, &arguments);
    let waiting = thread::scope(|scope| {
        let waiting =
            scope.spawn(|| run(&namespace, &[&["apply"], REDIRECT, &["--lock-wait", "20"]].concat()));
        thread::sleep(Duration::from_millis(300));
        holder.kill().expect("our child");
        waiting.join().expect("the run ends")
    });
    waiting.with(0, "the lock was released");
    namespace.outcome(&mut as_identity(PROXY, &arguments)).with(0, "a free lock");
}

#[test]
fn missing_capability_is_named() {
    let namespace = Namespace::new();
    let arguments = [&["apply"], REDIRECT, &["--lock-wait", "0"]].concat();
    let printed =
        namespace.outcome(&mut as_identity(NOBODY, &arguments)).with(1, "the capability is missing").stderr;
    assert!(printed.contains("CAP_NET_ADMIN is required") && !printed.contains("--lock-wait"), "{printed}");
}
