//! As little as it takes: CAP_NET_ADMIN over the namespace, and nothing else.

use crate::apply::native::support::{in_namespace, ports};
use crate::support::folder::Folder;
use crate::support::program::{BINARY, folder_with, output, stdout};

/// A copy of the binary where every user can reach it.
struct Copy(Folder);

impl Copy {
    fn new(name: &str) -> Self {
        Self(folder_with(BINARY, name))
    }

    fn call<'a>(&'a self, before: &[&'a str], flags: &[&'a str]) -> Vec<&'a str> {
        let binary = self.0.to_str().expect("UTF-8");
        let call = ["--pod-ips", "10.0.0.1,fd00::1", "--dual-stack", "-u", "1337", "-g", "1337", "-i", "*"];
        let run = ["env", "-C", binary, "./sidecar-init", "istio-iptables", "--native-nftables"];
        [before, &run, &call, flags].concat()
    }
}

const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// A namespace of one user, who is nobody outside; room for long lists is to be had there too.
#[test]
fn an_unprivileged_user_captures_in_a_namespace_of_his_own() {
    let (copy, ports) = (Copy::new("user"), ports(5_000));
    for flags in [&["-b", "*"][..], &["-o", &ports]] {
        let unshare = [&NOBODY[..], &["unshare", "--user", "--map-root-user", "--net"]].concat();
        stdout("setpriv", &copy.call(&unshare, flags), "");
    }
}

#[test]
fn the_one_capability_is_enough_for_any_user() {
    let copy = Copy::new("capability");
    let capability =
        ["--inh-caps=-all,+net_admin", "--bounding-set=-all,+net_admin", "--ambient-caps=+net_admin"];
    let user = [&NOBODY[..], &capability, &["--no-new-privs"]].concat();
    let tables = in_namespace(|| {
        stdout("setpriv", &copy.call(&user, &["-b", "*"]), "");
        stdout("nft", &["list", "tables"], "")
    });
    assert_eq!(tables, "table inet sidecar_init\n");
}

#[test]
fn without_it_one_sentence_names_it() {
    let copy = Copy::new("none");
    let user = [&NOBODY[..], &["--inh-caps=-all", "--no-new-privs"]].concat();
    let refused = in_namespace(|| output("setpriv", &copy.call(&user, &["-b", "*"]), ""));
    let complaint = refused.with(1, "without the capability").stderr;
    assert!(complaint.contains("CAP_NET_ADMIN is needed"), "{complaint}");
}
