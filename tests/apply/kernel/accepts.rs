//! The texts of the scenario catalogue are accepted by `iptables-restore --test` and `ip6tables-restore
//! --test` of both variants.

use crate::support::catalogue::scenarios;
use crate::support::rows::rows;

use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};

rows! {
    legacy_v4: check(Variant::Legacy, Family::V4, "v4.rules");
    legacy_v6: check(Variant::Legacy, Family::V6, "v6.rules");
    nft_v4: check(Variant::Nft, Family::V4, "v4.rules");
    nft_v6: check(Variant::Nft, Family::V6, "v6.rules");
}

/// Feeds every scenario's `file` to the variant; panics with all that it refuses.
fn check(variant: Variant, family: Family, file: &str) {
    let namespace = Namespace::new();
    let restore = variant.program(family, "-restore");
    let mut tried = 0;
    let refused: Vec<String> = scenarios(|_| true)
        .iter()
        .filter_map(|case| {
            let text = case.text(file)?;
            tried += 1;
            let output = namespace.output(&restore, &["--test", "--noflush", "-w"], &text);
            (!output.succeeded()).then(|| format!("  {}: {}", case.name(), output.stderr.trim()))
        })
        .collect();
    assert!(tried > 50, "{tried} scenarios have {file}");
    assert!(refused.is_empty(), "{restore} refuses\n{}", refused.join("\n"));
}
