//! The texts of the scenario catalogue are accepted by `iptables-restore --test` and `ip6tables-restore
//! --test` of both variants.

use crate::support::rows::rows;
use std::fs;
use std::path::{Path, PathBuf};

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
    let texts = texts(file);
    assert!(!texts.is_empty(), "no scenario has a {file}");
    let namespace = Namespace::new();
    let restore = variant.program(family, "-restore");
    let refused: Vec<String> = texts.iter().filter_map(|path| refusal(&namespace, &restore, path)).collect();
    assert!(refused.is_empty(), "{restore} refuses\n{}", refused.join("\n"));
}

fn refusal(namespace: &Namespace, restore: &str, path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let output = namespace.output(restore, &["--test", "--noflush", "-w"], &text);
    let complaint = &output.stderr;
    (!output.succeeded()).then(|| format!("  {}: {}", path.display(), complaint.trim()))
}

fn texts(file: &str) -> Vec<PathBuf> {
    let catalogue = Path::new(env!("CARGO_MANIFEST_DIR")).join("rules/scenarios");
    let folders = fs::read_dir(&catalogue).unwrap_or_else(|error| panic!("{}: {error}", catalogue.display()));
    let folders = folders.map(|entry| entry.expect("the catalogue can be listed").path());
    let mut texts: Vec<PathBuf> =
        folders.map(|folder| folder.join(file)).filter(|path| path.is_file()).collect();
    texts.sort();
    texts
}
