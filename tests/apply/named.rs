//! A namespace by its name, by a process in it, and by neither.

use crate::support::namespace::{Namespace, run, succeed};
use crate::support::program::Run;
use std::process::{Command, Stdio};

const PROGRAM: &str = crate::support::program::BINARY;
const CAPTURE: [&str; 6] = ["--pod-ips", "10.77.0.2", "-i", "*", "-b", "*"];

/// In a mount namespace of its own, so that the machine's names stay as they are.
#[test]
fn a_name_of_ip_netns_is_enough() {
    let script = format!(
        "mount -t tmpfs none /run && ip netns add payments && ip netns add db && \
         {PROGRAM} apply --network-namespace payments --pod-ips 10.77.0.2 -i '*' -b '*' && \
         ip netns exec payments nft list tables && ip netns exec db nft list tables && \
         {PROGRAM} clean --network-namespace paymnets"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "sh", "-c", &script]);
    let output = command.outcome();
    let stderr = &output.stderr;
    assert_eq!(output.code, Some(2), "{stderr}");
    // One of the two has it.
    assert_eq!(output.stdout.trim(), "table inet sidecar_init", "{stderr}");
    assert!(stderr.contains("known names: db, payments"), "{stderr}");
    assert!(stderr.contains("did you mean payments?"), "{stderr}");
}

/// In a mount namespace of its own, as above.
#[test]
fn names_are_completed() {
    for (flag, start, expected) in [
        ("status --network-namespace", "", "db\npayments\n"),
        ("status --network-namespace", "p", "payments\n"),
        ("cni repair --netns", "d", "db\n"),
        ("status --network-namespace", "/run/ne", ""),
    ] {
        let line = format!("sidecar-init {flag} '{start}'");
        // Containers of the machine are proposed as well.
        let script = format!(
            "mount -t tmpfs none /run && ip netns add payments && ip netns add db && \
             {PROGRAM} completions bash -- {line} | grep -vxE 'words|files|[0-9a-f]{{12}}' || true"
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "sh", "-c", &script]);
        assert_eq!(command.outcome().with(0, &line).stdout, expected, "{line}");
    }
}

#[test]
fn a_process_names_its_namespace() {
    let (namespace, elsewhere) = (Namespace::new(), Namespace::new());
    let start = || Command::new("sleep").arg("600").stdin(Stdio::null()).spawn();
    let mut child = namespace.run(start).expect("sleep starts");
    let name = format!("pid:{}", child.id());
    let within = [&["apply", "--network-namespace", &name], &CAPTURE[..]].concat();
    let ended = run(&elsewhere, &within);
    let compared = run(&namespace, &[&["check"], &CAPTURE[..]].concat());
    let there =
        run(&elsewhere, &["cni", "repair", "--netns", &name, "-i", "*", "-b", "*", "--pod-ips", "10.77.0.2"]);
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    ended.with(0, "apply by a process");
    compared.with(0, "check inside");
    there.with(0, "repair by a process");
    let gone = run(&elsewhere, &within).with(2, "a process that has ended").stderr;
    assert!(gone.contains(&format!("--network-namespace: {name:?} is not there: no process")), "{gone}");
    assert_eq!(elsewhere.stdout("nft", &["list", "tables"]), "", "only where it was asked for");
    succeed(&namespace, &["clean"]);
}
