//! Names of what can hold the rules, in network configurations and in what is remembered.

use sidecar_init::{
    backend::{BackendName, Variant},
    engine::Choice,
};

const NFTABLES: &str = "nftables";
const IPTABLES: &str = "iptables";

/// What a name chooses; `None` if it is none.
pub(crate) fn choice(name: &str) -> Option<Choice> {
    match (name, name.parse()) {
        (NFTABLES, _) => Some(Choice::Nftables),
        (IPTABLES, _) => Some(Choice::Iptables(None)),
        (_, Ok(BackendName::Iptables(variant))) => Some(Choice::Iptables(Some(variant))),
        (_, Ok(BackendName::Nftables) | Err(_)) => None,
    }
}

/// The name of a choice.
pub(crate) fn name(choice: Choice) -> String {
    match choice {
        Choice::Nftables | Choice::InUse(_) => NFTABLES.to_owned(),
        Choice::Iptables(None) => IPTABLES.to_owned(),
        Choice::Iptables(Some(variant @ (Variant::Legacy | Variant::Nft))) => variant.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for text in ["nftables", "iptables", "iptables-nft", "iptables-legacy"] {
            assert_eq!(choice(text).map(name).as_deref(), Some(text));
        }
        assert_eq!(choice("ipchains"), None);
    }
}
