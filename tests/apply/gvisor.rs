//! gVisor's kernel, without nf_tables. Missing features are reported, change nothing, and do not block the available ones:
//! iptables' legacy tables. Debian's gVisor (20221219) has the nat table without the `owner` match, so none of the tool's rules
//! can be set.

use crate::support::folder::Folder;
use crate::support::program::{BINARY, Outcome, Run};
use std::process::Command;

fn inside(program: &str, arguments: &str) -> Outcome {
    let root = Folder::new("gvisor");
    let sandbox = "mount -t proc proc /proc && exec runsc --root \"$0\" --network=none --platform=ptrace --net-raw \
                   --ignore-cgroups do \"$@\"";
    Command::new("timeout")
        .args(["--kill-after=5", "120", "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"])
        .args(["sh", "-c", sandbox])
        .arg(&*root)
        .arg(program)
        .args(arguments.split_whitespace())
        .outcome()
}

fn check(arguments: &str, code: i32, says: &[&str]) {
    let printed = inside(BINARY, arguments).with(code, arguments).text();
    for words in says {
        assert!(printed.contains(words), "{arguments}: {printed}");
    }
}

const CAPTURE: &str = "--pod-ips 10.1.2.3 -u 1337 -b 8080 -i 10.0.0.0/8";

#[test]
#[ignore = "needs gVisor's runsc"]
fn sandbox_runs_gvisor() {
    let output = inside("dmesg", "");
    assert!(output.stdout.contains("gVisor"), "{output:?}");
}

#[test]
#[ignore = "needs gVisor's runsc"]
fn missing_tables_are_no_failure() {
    check("clean", 0, &["no rules of this program were found"]);
    check(&format!("check {CAPTURE}"), 3, &["IPv4 nat ISTIO_REDIRECT (iptables-legacy)", "# missing"]);
    check("status", 3, &["Nothing is captured"]);
}

/// Without a backend flag, the drop-in and `apply` both use the kernel's only backend.
#[test]
#[ignore = "needs gVisor's runsc"]
fn unsupported_match_is_named_and_leaves_no_rules() {
    let says = ["iptables-legacy", "rolled back", "owner"];
    check(&format!("apply {CAPTURE}"), 1, &says);
    check(&format!("istio-iptables {CAPTURE}"), 1, &says);
}

#[test]
#[ignore = "needs gVisor's runsc"]
fn unavailable_backend_is_refused_with_the_other_one() {
    check(&format!("apply --backend nftables {CAPTURE}"), 1, &["no nf_tables", "--backend iptables-legacy"]);
}
