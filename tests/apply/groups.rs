//! The maximum number of owner groups, although programs take at most 255 words.

use crate::apply::stage::{FULL, VARIANTS, call, state};
use crate::support::namespace::Namespace;
use crate::support::program::{Outcome, binary};

fn groups(count: usize) -> String {
    (0..count).map(|n| (4_000_000_000 + n).to_string()).collect::<Vec<_>>().join(",")
}

fn run(namespace: &Namespace, arguments: &[&str], groups: &str) -> Outcome {
    namespace.outcome(binary(arguments).env("ISTIO_OUTBOUND_OWNER_GROUPS", groups))
}

#[test]
fn all_allowed_owner_groups_are_set() {
    for variant in VARIANTS {
        for count in [49, 50, 64] {
            let (namespace, groups, what) =
                (Namespace::new(), groups(count), format!("{variant:?}, {count}"));
            run(&namespace, &call("apply", variant, FULL), &groups).with(0, &what);
            let rules = state(&namespace);
            let is_whole = |line: &&str| line.matches("! --gid-owner 4").count() == count;
            assert_eq!(rules.lines().filter(is_whole).count(), 2, "{what}: one rule per family\n{rules}");
            run(&namespace, &call("diff", variant, FULL), &groups).with(0, &what);
            run(&namespace, &["clean"], &groups).with(0, &what);
        }
    }
}

/// The preview matches upstream's, which has too many words.
#[test]
fn unrestorable_preview_has_a_warning() {
    let namespace = Namespace::new();
    for (count, fits) in [(49, true), (50, false)] {
        let printed = run(&namespace, &[&["istio-iptables", "--dry-run"], FULL].concat(), &groups(count));
        let printed = printed.with(0, "a preview");
        assert_eq!(
            printed.stderr.contains("more words than iptables-restore accepts"),
            !fits,
            "{count}: {}",
            printed.stderr
        );
        let restored = namespace.output("iptables-legacy-restore", &["--test", "-w"], v4(&printed.stdout));
        assert_eq!(restored.succeeded(), fits, "{count}: {restored:?}");
    }
}

fn v4(preview: &str) -> &str {
    preview.split("# ip6tables-restore").next().expect("the IPv4 part")
}
