//! Every scenario of Kuma in the catalogue: what `apply` sets `check` finds equal and a second call leaves alone, with each
//! backend, and uninstalling leaves nothing.

use crate::kuma::drop_in::call;
use crate::support::catalogue::{Case, scenarios};
use crate::support::namespace::Namespace;
use std::process::Command;

fn settles(backend: &str) {
    let folders: Vec<_> = scenarios(|mesh| mesh == Some("kuma"));
    assert!(folders.len() >= 30, "the catalogue has shrunk");
    for folder in folders {
        let case = Case::read(&folder);
        let namespace = Namespace::new();
        let run = |command: &str, says: &str| {
            let mut program = Command::new(crate::support::program::BINARY);
            program.args([command, "--mesh", "kuma", "--backend", backend]).args(case.flags());
            program.envs(case.variables());
            let told =
                namespace.outcome(&mut program).with(0, &format!("{} {command}", folder.display())).text();
            assert!(told.contains(says), "{} {command}: {told}", folder.display());
        };
        run("apply", "changed=true");
        run("check", "");
        run("apply", "changed=false");
        let ended = call(&namespace, &["uninstall", "transparent-proxy"], &[]);
        assert_eq!(ended.code, Some(0), "{}: {}", folder.display(), ended.stderr);
        let rules =
            namespace.stdout("nft", &["list", "ruleset"]) + &namespace.stdout("iptables-legacy-save", &[]);
        assert!(!rules.contains("KUMA") && !rules.contains("kuma"), "{}: {rules}", folder.display());
    }
}

#[test]
fn every_scenario_settles_with_nft() {
    settles("iptables-nft");
}

#[test]
fn every_scenario_settles_with_legacy() {
    settles("iptables-legacy");
}

#[test]
fn every_scenario_settles_natively() {
    settles("nftables");
}
