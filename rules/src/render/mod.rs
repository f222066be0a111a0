//! Rule sets and changes as text for other programs, and rules as listings show them: as read, or in our own form.

pub mod iptables;
pub mod nft;

use crate::nft::{Effect, InetRule, InetTable, LiveChain, LiveRule, LiveTable};
use crate::{Action, ListedCondition, Policy, simulate::ViewRule};
use std::borrow::Cow;

pub fn condition(condition: &ListedCondition) -> String {
    match condition {
        ListedCondition::Known(known) => known.to_string(),
        ListedCondition::Protocol(operand) => match operand.value() {
            Some(protocol) => format!("{}-p {protocol}", operand.sign()),
            None => format!("{}-p of another protocol", operand.sign()),
        },
        ListedCondition::DestinationLocal(operand) => {
            format!("-m addrtype {}--dst-type LOCAL", operand.sign())
        }
        ListedCondition::Nft(condition) => nft::condition(condition, "th"),
        ListedCondition::TcpFlags { text, .. }
        | ListedCondition::Always(text)
        | ListedCondition::Unknown(text) => text.clone(),
    }
}

pub fn rule(rule: &ViewRule) -> Cow<'_, str> {
    let made = || {
        let action = match &rule.action {
            Action::Target(target) => target.to_string(),
            other => nft::action_text(other),
        };
        rule.conditions.iter().map(condition).chain([action]).collect::<Vec<_>>().join(" ")
    };
    rule.text.as_deref().map_or_else(|| made().into(), Cow::Borrowed)
}

impl InetTable {
    /// The table as read back from the kernel.
    pub fn listed(&self) -> LiveTable {
        let chains = self.chains.iter().map(|chain| LiveChain {
            name: chain.name.clone(),
            base: chain.base.map(|base| (base, Policy::Accept)),
            rules: chain.rules.iter().map(InetRule::listed).collect(),
        });
        LiveTable { family: None, name: format!("inet {}", self.name), chains: chains.collect() }
    }
}

impl InetRule {
    pub fn listed(&self) -> LiveRule {
        LiveRule {
            text: nft::rule(self),
            conditions: self.tests.iter().map(|test| ListedCondition::Nft(test.condition.clone())).collect(),
            first: Vec::new(),
            action: match &self.effect {
                Effect::Target(target) => Action::Target(target.clone()),
                Effect::Jump(chain) => Action::Call { chain: chain.clone(), returns: true },
                Effect::Goto(chain) => Action::Call { chain: chain.clone(), returns: false },
                Effect::None => Action::Continue(String::new()),
            },
            comment: self.comment.clone(),
            hits: None,
        }
    }
}
