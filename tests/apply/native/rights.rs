//! Minimal privileges. `CAP_NET_ADMIN` over the namespace is sufficient; the lock tests cover the error without it.

use crate::apply::native::support::ports;
use crate::support::program::{BINARY, folder_with, stdout};

/// The namespace of an unprivileged user, with long lists.
#[test]
fn unprivileged_user_captures_in_a_user_namespace() {
    let (copy, ports) = (folder_with(BINARY, "user"), ports(5_000));
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let inside = ["unshare", "--user", "--map-root-user", "--net", "env", "-C"];
    let run = [copy.to_str().expect("UTF-8"), "./sidecar-init", "istio-iptables", "--native-nftables"];
    let call = ["--pod-ips", "10.0.0.1,fd00::1", "--dual-stack", "-u", "1337", "-g", "1337", "-i", "*"];
    for flags in [&["-b", "*"][..], &["-o", &ports]] {
        stdout("setpriv", &[&user[..], &inside, &run, &call, flags].concat(), "");
    }
}
