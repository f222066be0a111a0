//! Rules in iptables (nft) tables that have changed since they were listed.

use crate::apply::programs::among;
use crate::apply::stage::{FULL, call, same, state};
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, succeed};
use crate::support::program::{binary, script};
use crate::support::setting::{Family, Variant};

/// Rules of other owners, before and after the mesh's rules, some twice, and one that jumps to a custom chain.
const FOREIGN: &str = "*nat
:STRANGER - [0:0]
-A OUTPUT -p tcp -m tcp --dport 4001 -j STRANGER
-A OUTPUT -p tcp -m tcp --dport 4002 -j ACCEPT
-A OUTPUT -p tcp -m tcp --dport 4002 -j ACCEPT
-A STRANGER -j RETURN
COMMIT
*mangle
-A PREROUTING -p tcp -m tcp --dport 4003 -j RETURN
COMMIT
";

/// Lists the rules, and changes them after the last family is listed.
const CHANGES: &str = "#!/bin/sh
/usr/sbin/${0##*/} \"$@\" || exit
[ \"${0##*/}\" = ip6tables-nft-save ] || exit 0
mkdir \"${0%/*}/done\" 2> /dev/null || exit 0
for table in nat mangle; do
  /usr/sbin/ip6tables-nft -t $table -I OUTPUT 1 -p tcp --dport 4004 -j ACCEPT || exit
done
";

#[test]
fn foreign_change_after_the_listing_is_kept() {
    let (namespace, folder) = (Namespace::new(), Folder::new("removal-changed"));
    for family in Family::BOTH {
        namespace.restore(Variant::Nft, family, FOREIGN);
        script(folder.join(Variant::Nft.program(family, "-save")), CHANGES);
    }
    let before = state(&namespace);
    succeed(&namespace, &call("apply", Variant::Nft, FULL));
    // The mesh's rules are between those of other owners.
    for program in Family::BOTH.map(|family| Variant::Nft.program(family, "")) {
        let head = ["-t", "nat", "-I", "OUTPUT", "1", "-p", "tcp", "--dport", "4002", "-j", "ACCEPT"];
        namespace.stdout(&program, &head);
        namespace.stdout(&program, &["-t", "nat", "-D", "OUTPUT", "4"]);
    }
    namespace.outcome(&mut among(binary(&["clean"]), &folder)).with(0, "clean");
    let after = state(&namespace);
    assert_eq!(after.matches("--dport 4004").count(), 2, "{after}");
    assert!(!after.contains("ISTIO") && !after.contains("sidecar-init"), "{after}");
    let without = |text: &str| -> String {
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("--dport 4004")).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    same(&without(&before), &without(&after), "rules of others");
}
