//! The texts of the scenario catalogue are accepted by `iptables-restore --test` and `ip6tables-restore
//! --test` of both variants.

use crate::support::catalogue::{Case, scenarios};
use crate::support::rows::rows;
use crate::support::scope;

use crate::support::namespace::Namespace;
use crate::support::setting::{Family, Variant};

rows! {
    legacy_v4: check(Variant::Legacy, Family::V4, "v4.rules");
    legacy_v6: check(Variant::Legacy, Family::V6, "v6.rules");
    nft_v4: check(Variant::Nft, Family::V4, "v4.rules");
    nft_v6: check(Variant::Nft, Family::V6, "v6.rules");
}

/// Feeds the scenarios' `file` to the variant; panics with all that it refuses.
fn check(variant: Variant, family: Family, file: &str) {
    let namespace = Namespace::new();
    let restore = variant.program(family, "-restore");
    let texts: Vec<(Case, String)> =
        scenarios(|_| true).into_iter().filter_map(|case| case.text(file).map(|text| (case, text))).collect();
    assert!(texts.len() > 50, "{} scenarios have {file}", texts.len());
    let refusal = |(case, text): &(Case, String)| {
        let output = namespace.output(&restore, &["--test", "--noflush", "-w"], text);
        (!output.succeeded()).then(|| format!("  {}: {}", case.name(), output.stderr.trim()))
    };
    let refused: Vec<String> = scope::of(texts, 30).iter().filter_map(refusal).collect();
    assert!(refused.is_empty(), "{restore} refuses\n{}", refused.join("\n"));
}
