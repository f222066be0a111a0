//! The native nf_tables table with port lists of several lengths, compared with `nft` and iptables.

use super::{Outcome, Row, Scratch, Table, in_fresh_namespace, program, restore_files, stdout_of};
use std::{path::Path, process::Command};

const EXCLUSIONS: [(usize, &str); 4] = [
    (0, "nftables, both families, no excluded ports"),
    (100, "nftables, both families, 100 excluded ports"),
    (1_000, "nftables, both families, 1,000 excluded ports"),
    (5_000, "nftables, both families, 5,000 excluded ports"),
];

/// A table for each length. `call` is an init container's call with additional flags.
pub(super) fn tables(call: impl Fn(&[&str]) -> Command, scratch: &Scratch) -> Outcome<Vec<Table>> {
    EXCLUSIONS.into_iter().map(|(count, title)| table(title, &ports(count), &call, scratch)).collect()
}

fn table(
    title: &'static str,
    ports: &str,
    call: &impl Fn(&[&str]) -> Command,
    scratch: &Scratch,
) -> Outcome<Table> {
    let flags = |more: &[&str]| call(&[&["--dual-stack", "-o", ports], more].concat());
    let apply = |more: &[&str]| vec![flags(&[&["--native-nftables"], more].concat())];
    let name = |kind: &str| format!("{}-{kind}", title.replace([' ', ','], "-"));
    let mut dry_run = apply(&["--dry-run"]);
    let script = in_fresh_namespace(|| dry_run.iter_mut().map(stdout_of).collect::<Outcome<String>>())?;
    let script = scratch.write(&name("nft"), &script)?;
    let [v4, v6] = restore_files(flags(&["--dry-run"]), scratch, &name("restore"))?;
    let restore = |variant: &str| -> Vec<Command> {
        let one = |stem, file: &str| {
            program(Path::new(&format!("{stem}-{variant}-restore")), &["--wait", "--noflush", file])
        };
        vec![one("iptables", &v4), one("ip6tables", &v6)]
    };
    let floor = "`/bin/true`";
    let change = apply(&["-q", "81", "--reconcile"]);
    let nft = vec![program(Path::new("nft"), &["-f", &script])];
    Ok(Table {
        title,
        rows: vec![
            Row::timed(floor, vec![program(Path::new("/bin/true"), &[])]),
            Row::timed("fresh apply", apply(&[])).against(floor),
            Row::timed("second run", apply(&[])).after(apply(&[])).against(floor),
            Row::timed("change", change).after(apply(&[])).against(floor),
            Row::timed("`nft -f` of the same rules", nft).against(floor),
            Row::timed("raw restore pair, iptables-nft", restore("nft")).against(floor),
            Row::timed("raw restore pair, iptables-legacy", restore("legacy")).against(floor),
        ],
    })
}

/// `count` ports, no two of them adjacent.
pub(super) fn ports(count: usize) -> String {
    (0..count).map(|n| (20_001 + 2 * n).to_string()).collect::<Vec<_>>().join(",")
}
