//! Tables of nf_tables as they are read back from the kernel: what was meant, told as what is there.

use crate::nft::{Action, ListedBase, ListedChain, ListedRule, ListedTable, Rule, Table};
use crate::{Condition, Policy, Target, line};

impl Table {
    /// The table as it is read back from the kernel.
    pub fn listed(&self) -> ListedTable {
        let chains = self.chains.iter().map(|chain| ListedChain {
            name: chain.name.clone(),
            base: chain.base.map(|base| ListedBase { base, policy: Policy::Accept }),
            rules: chain.rules.iter().map(Rule::listed).collect(),
        });
        ListedTable { family: None, name: format!("inet {}", self.name), chains: chains.collect() }
    }
}

impl Rule {
    /// The rule as it is read back.
    pub fn listed(&self) -> ListedRule {
        ListedRule {
            text: super::nft::rule(self),
            conditions: self.tests.iter().map(|test| Condition::Nft(test.condition.clone())).collect(),
            first: Vec::new(),
            action: self.action.listed(),
            comment: self.comment.clone(),
            hits: None,
        }
    }
}

impl Action {
    /// The action in the vocabulary of lines.
    pub fn listed(&self) -> line::Action {
        line::Action::Target(match self {
            Self::Accept => Target::Accept,
            Self::Drop => Target::Drop,
            Self::Return => Target::Return,
            Self::Jump(chain) => return line::Action::Call { chain: chain.clone(), returns: true },
            Self::Goto(chain) => return line::Action::Call { chain: chain.clone(), returns: false },
            Self::Redirect(ports) => Target::Redirect(*ports),
            Self::Tproxy { port, mark, .. } => Target::Tproxy { port: *port, mark: *mark },
            Self::SetMark(mark) => Target::SetMark(*mark),
            Self::SetConnmark(mark) => Target::SetConnmark(*mark),
            Self::SaveMark => Target::SaveMark,
            Self::RestoreMark => Target::RestoreMark,
            Self::SetZone(zone) => Target::SetZone(*zone),
            Self::Report => return line::Action::Continue(String::new()),
        })
    }
}
