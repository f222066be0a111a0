//! The words of each scenario's call make the rules and the table beside it (`rules/scenarios`).

use mesh::preview::{self, Preview};
use mesh::settings::{self, Setting};
use mesh::sources::pflag::{self, Flags, PflagWord};
use mesh::sources::{NullHost, Raw};
use mesh::{Mesh, Resolved, resolve};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// What a call gives, as the command line reads it.
fn raw(case: &Value) -> Raw {
    let mesh: Mesh = case["mesh"].as_str().unwrap_or("istio").parse().expect("a mesh");
    let strings = |key: &str| -> Vec<String> {
        let items = case[key].as_array().into_iter().flatten();
        items.map(|item| item.as_str().expect("a string").to_owned()).collect()
    };
    let flags = Flags::of(settings::of(mesh));
    let mut given = vec![(Setting::Mesh, mesh.to_string())];
    let mut waiting = None;
    for word in strings("args") {
        let mut take = |found: Vec<(&settings::SettingRow, String)>| {
            given.extend(found.into_iter().map(|(row, value)| (row.setting, value)));
        };
        match waiting.take() {
            Some(row) => take(vec![(row, word)]),
            None => match pflag::word(&word, &flags) {
                PflagWord::Flags(found) => take(found),
                PflagWord::NeedsValue(found, row) => {
                    take(found);
                    waiting = Some(row);
                }
                other => panic!("{word}: {other:?}"),
            },
        }
    }
    given.push((Setting::PodIps, strings("pod_ips").join(",")));
    given.push((Setting::DnsServers, strings("dns_servers").join(",")));
    Raw::new(given, |row| row.setting.is_for(mesh), |name| case["env"][name].as_str().map(Into::into))
}

#[test]
fn the_rules_of_a_call_are_the_texts_of_its_scenario() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rules/scenarios");
    let mut compared = 0;
    for entry in fs::read_dir(folder).expect("the scenarios") {
        let folder = entry.expect("an entry").path();
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        if !folder.is_dir() {
            continue;
        }
        let case: Value = serde_json::from_str(&read("case.json"))
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let Resolved { capture, .. } = resolve(&raw(&case), &NullHost, Vec::new())
            .unwrap_or_else(|problems| panic!("{}: {problems}", folder.display()));
        let mut expected = format!("# iptables-restore\n{}", read("v4.rules"));
        if folder.join("v6.rules").exists() {
            expected += &format!("# ip6tables-restore\n{}", read("v6.rules"));
        }
        assert_eq!(preview::print(&*capture, Preview::Restore).text, expected, "{}", folder.display());
        let table = format!("# nft -f\n{}", read("table.nft"));
        assert_eq!(preview::print(&*capture, Preview::Nft).text, table, "{}", folder.display());
        compared += 1;
    }
    assert!(compared > 150, "only {compared} scenarios");
}
