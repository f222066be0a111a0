//! The plugin's results for a container of any runtime.

use crate::{
    cni::{
        plugin::runtime::rules,
        runtimes::{network::Attachment, stage::Stage},
    },
    support::namespace::Namespace,
};

pub(crate) fn check_finds_tampering(stage: &Stage, attachment: &Attachment, inside: &Namespace) {
    let whole = rules(inside);
    assert_eq!(attachment.call(stage, "CHECK"), Ok(String::new()), "{whole}");
    let table = whole.lines().find_map(|line| line.strip_prefix("table ")?.strip_suffix(" {"));
    let table: Vec<&str> = table.expect("the table").split(' ').collect();
    let chains = whole.lines().filter_map(|line| line.trim().strip_prefix("chain ")?.split(' ').next());
    for chain in chains {
        inside.stdout("nft", &[&["insert", "rule"], &table[..], &[chain, "accept"]].concat());
        let error = attachment.call(stage, "CHECK").expect_err("an extra rule is a difference");
        assert_eq!(error["code"], 101, "{error}");
        assert!(error["details"].as_str().is_some_and(|details| details.contains(chain)), "{error}");
        attachment.call(stage, "ADD").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(rules(inside), whole);
        assert_eq!(attachment.call(stage, "CHECK"), Ok(String::new()));
    }
}

/// After DEL, no rules remain in the namespace, which this test holds, and no record remains.
pub(crate) fn is_gone(stage: &Stage, attachment: &Attachment, inside: &Namespace) {
    assert_eq!(rules(inside), "", "{}", stage.logs());
    let routing = inside.stdout("sh", &["-ec", "ip rule; ip -6 rule; ip addr show lo"]);
    assert!(!routing.contains("fwmark") && !routing.contains("::6/128"), "{routing}");
    assert!(!attachment.is_remembered(stage), "{}", stage.logs());
}
