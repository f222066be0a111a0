//! Rules in tables of iptables (nft) are removed without its programs, and by them where the tables have changed since they
//! were listed.
//!
//! Scripts of the programs' names stand before the real ones on `PATH`.

use crate::apply::stage::{FULL, call, same, state};
use crate::support::folder::Folder;
use crate::support::namespace::{Namespace, succeed};
use crate::support::program::{PATH, binary};
use crate::support::setting::{Family, Variant};

/// Rules of others, before and behind ours, some twice, and one that jumps to a chain of its own.
const STRANGERS: &str = "*nat
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

/// Is never needed.
const REFUSES: &str = "#!/bin/sh
echo \"${0##*/} was run\" >&2
exit 1
";

/// Lists, and once the last family is listed, changes what was.
const CHANGES: &str = "#!/bin/sh
/usr/sbin/${0##*/} \"$@\" || exit
[ \"${0##*/}\" = ip6tables-nft-save ] || exit 0
mkdir \"${0%/*}/done\" 2> /dev/null || exit 0
for table in nat mangle; do
  /usr/sbin/ip6tables-nft -t $table -I OUTPUT 1 -p tcp --dport 4004 -j ACCEPT || exit
done
";

struct Scene {
    namespace: Namespace,
    /// What others have put there.
    before: String,
    folder: Folder,
}

impl Scene {
    /// Where `script` stands for the programs that do this, and ours are in the middle of the strangers' rules.
    fn new(name: &str, action: &str, script: &str) -> Self {
        let namespace = Namespace::new();
        let folder = Folder::new(name);
        for family in Family::BOTH {
            namespace.restore(Variant::Nft, family, STRANGERS);
            for action in ["-save", "-restore"] {
                let program = Variant::Nft.program(family, action);
                let plain = format!("#!/bin/sh\nexec /usr/sbin/{program} \"$@\"\n");
                let file = folder.join(program);
                crate::support::program::script(&file, plain);
            }
            let file = folder.join(Variant::Nft.program(family, action));
            crate::support::program::script(file, script);
        }
        let before = state(&namespace);
        succeed(&namespace, &call("apply", Variant::Nft, FULL));
        for family in Family::BOTH {
            let head = ["-t", "nat", "-I", "OUTPUT", "1", "-p", "tcp", "--dport", "4002", "-j", "ACCEPT"];
            namespace.stdout(&Variant::Nft.program(family, ""), &head);
            let delete = ["-t", "nat", "-D", "OUTPUT", "4"];
            namespace.stdout(&Variant::Nft.program(family, ""), &delete);
        }
        Self { namespace, before, folder }
    }

    fn clean(&self) {
        let path = format!("{}:{PATH}", self.folder.display());
        self.namespace.outcome(binary(&["clean"]).env("PATH", path)).with(0, "clean");
    }
}

#[test]
fn no_program_of_iptables_nft_is_run_to_remove_rules() {
    let scene = Scene::new("removal-alone", "-restore", REFUSES);
    scene.clean();
    let order = |text: &str| -> Vec<String> {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(order(&scene.before), order(&state(&scene.namespace)));
}

#[test]
fn a_change_after_the_listing_is_not_taken_for_ours() {
    let scene = Scene::new("removal-changed", "-save", CHANGES);
    scene.clean();
    let after = state(&scene.namespace);
    assert_eq!(after.matches("--dport 4004").count(), 2, "{after}");
    assert!(!after.contains("ISTIO") && !after.contains("sidecar-init"), "{after}");
    let without = |text: &str| -> String {
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.contains("--dport 4004")).collect();
        lines.sort_unstable();
        lines.join("\n")
    };
    same(&without(&scene.before), &without(&after), "rules of others");
}
