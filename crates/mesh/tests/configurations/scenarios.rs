//! Each scenario's call produces the rules and table beside it (`rules/scenarios`).

use mesh::preview::{self, Preview};
use mesh::settings::{self, Setting};
use mesh::sources::pflag::{self, Flags, PflagWord};
use mesh::sources::{NullHost, Raw};
use mesh::{Mesh, Resolved, resolve};
use testkit::scenarios::{Case, scenarios};

fn raw(case: &Case) -> Raw {
    let mesh: Mesh = case.mesh().unwrap_or("istio").parse().expect("a mesh");
    let flags = Flags::of(settings::of(mesh));
    let mut given = vec![(Setting::Mesh, mesh.to_string())];
    let mut waiting = None;
    for word in case.flags() {
        let mut take = |found: Vec<(&settings::SettingRow, String)>| {
            given.extend(found.into_iter().map(|(row, value)| (row.setting, value)));
        };
        match waiting.take() {
            Some(row) => take(vec![(row, word)]),
            None => match pflag::word(&word, &flags) {
                PflagWord::Flags(found, row) => {
                    take(found);
                    waiting = row;
                }
                other => panic!("{word}: {other:?}"),
            },
        }
    }
    let variables = case.variables();
    let value =
        |name: &str| variables.iter().find(|(variable, _)| variable == name).map(|(_, value)| value.into());
    Raw::new(given, |row| row.setting.is_for(mesh), value)
}

#[test]
fn calls_produce_the_rules_of_their_scenario() {
    for case in scenarios(|_| true) {
        let (name, text) = (case.name(), |file: &str| case.text(file).unwrap_or_default());
        let Resolved { capture, .. } = resolve(&raw(&case), &NullHost, Vec::new())
            .unwrap_or_else(|problems| panic!("{name}: {problems}"));
        let mut expected = format!("# iptables-restore\n{}", text("v4.rules"));
        if let Some(v6) = case.text("v6.rules") {
            expected += &format!("# ip6tables-restore\n{v6}");
        }
        assert_eq!(preview::print(&*capture, Preview::Restore).text, expected, "{name}");
        let table = format!("# nft -f\n{}", text("table.nft"));
        assert_eq!(preview::print(&*capture, Preview::Nft).text, table, "{name}");
    }
}
