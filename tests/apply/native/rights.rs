//! As little as it takes. That CAP_NET_ADMIN over the namespace is enough, and is named where it is missing, is tried where the
//! lock of a namespace is.

use crate::apply::native::support::ports;
use crate::support::program::{BINARY, folder_with, stdout};

/// A namespace of one user, who is nobody outside; room for long lists is to be had there too.
#[test]
fn an_unprivileged_user_captures_in_a_namespace_of_his_own() {
    let (copy, ports) = (folder_with(BINARY, "user"), ports(5_000));
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let inside = ["unshare", "--user", "--map-root-user", "--net", "env", "-C"];
    let run = [copy.to_str().expect("UTF-8"), "./sidecar-init", "istio-iptables", "--native-nftables"];
    let call = ["--pod-ips", "10.0.0.1,fd00::1", "--dual-stack", "-u", "1337", "-g", "1337", "-i", "*"];
    for flags in [&["-b", "*"][..], &["-o", &ports]] {
        stdout("setpriv", &[&user[..], &inside, &run, &call, flags].concat(), "");
    }
}
