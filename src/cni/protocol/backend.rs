//! What may hold the rules, as network configurations and what is remembered name it.

/// By which interface of the kernel rules are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Nftables,
    /// The variant of iptables that is in use.
    Iptables,
    IptablesNft,
    IptablesLegacy,
}

impl Backend {
    const ALL: [Self; 4] = [Self::Nftables, Self::Iptables, Self::IptablesNft, Self::IptablesLegacy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
        }
    }

    /// What a name means; `None` if it is none.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|backend| backend.name() == name)
    }
}
