//! The binary in an otherwise empty root directory captures a pod's traffic, as a user without further capabilities.

use crate::apply::native::musl;
use crate::apply::native::support::in_namespace;
use crate::support::address::Place;
use crate::support::case::{Caller, Landing, check};
use crate::support::folder::Folder;
use crate::support::pod::Pod;
use crate::support::program::{folder_with, output};
use crate::support::setting::{Family, Mode, Setting, Variant};
use crate::support::traffic::Protocol;
use std::{fs, os::unix::fs::PermissionsExt};

fn root(name: &str) -> Folder {
    let folder = folder_with(musl::binary(), name);
    fs::set_permissions(&*folder, fs::Permissions::from_mode(0o555)).expect("its mode");
    folder
}

/// User `nobody`, with the capabilities to set rules and to change the root directory for `chroot`.
const USER: [&str; 7] = [
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=-all,+net_admin,+sys_chroot",
    "--ambient-caps=+net_admin,+sys_chroot",
    "--bounding-set=-all,+net_admin,+sys_chroot",
    "--no-new-privs",
];

fn run(pod: &Pod, root: &Folder, call: &[&str]) {
    let folder = root.to_str().expect("UTF-8");
    let user = [&USER[..], &["chroot", folder, "/sidecar-init"], call].concat();
    pod.inside.stdout("setpriv", &user);
}

fn captures(family: Family, mode: Mode) {
    let setting = Setting { variant: Variant::Native, family, mode };
    let (pod, root) = (Pod::new(setting), root(&format!("{family:?}-{}", mode.name())));
    let flags = ["--dual-stack", "-u", "1337", "-g", "1337", "-m", mode.name(), "-i", "*", "-b", "*"];
    let calls = |landings: [Landing; 3]| {
        let [outbound, inbound, proxy] = landings;
        [
            (Caller::App, Protocol::Tcp, Place::Service, 9080, outbound),
            (Caller::Outside, Protocol::Tcp, Place::Pod, 8080, inbound),
            (Caller::Proxy, Protocol::Tcp, Place::Service, 9080, proxy),
        ]
    };
    check(&pod, &calls([Landing::Passes; 3]));
    run(&pod, &root, &[&["istio-iptables"], &flags[..]].concat());
    check(&pod, &calls([Landing::Outbound, Landing::Inbound, Landing::Passes]));
    check(&pod, &[(Caller::ProxyFromSix, Protocol::Tcp, Place::Pod, 8080, Landing::Passes)]);
    run(&pod, &root, &[&["diff"], &flags[..]].concat());
    run(&pod, &root, &["clean"]);
    check(&pod, &calls([Landing::Passes; 3]));
}

#[test]
#[ignore = "builds the static binary"]
fn an_empty_root_is_enough() {
    for family in Family::BOTH {
        captures(family, Mode::Redirect);
        captures(family, Mode::Tproxy);
    }
}

#[test]
#[ignore = "builds the static binary"]
fn closed_streams_do_not_abort() {
    let root = root("closed");
    let folder = root.to_str().expect("UTF-8");
    let run = |call: &str, closed: &str| {
        let line = format!("exec chroot {folder} /sidecar-init {call} {closed}");
        output("sh", &["-c", &line], "")
    };
    let flags = "--native-nftables --pod-ips 10.0.0.1 -b '*' -i '*'";
    for (closed, answers) in
        [("<&-", true), (">&-", false), ("2>&-", true), ("<&- 2>&-", true), ("<&- >&- 2>&-", false)]
    {
        in_namespace(|| {
            for (call, expected) in
                [("diff", 3), ("istio-iptables", 0), ("diff", 0), ("check --no-such-flag", 2), ("clean", 0)]
            {
                let flags = if call == "clean" { "" } else { flags };
                let ended = run(&format!("{call} {flags}"), closed);
                assert_eq!(ended.code, Some(expected), "{call} {closed}: {ended:?}");
                let printed = !ended.stdout.is_empty();
                assert_eq!(printed, call == "diff" && answers, "{call} {closed}");
            }
        });
    }
}
