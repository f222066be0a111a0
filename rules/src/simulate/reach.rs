//! The rules that packets of a family come to at all: a table of nf_tables may hold those of both families, and chains
//! stand that nothing leads to.

use super::view::{View, ViewRule};
use crate::field::{Field, family_number};
use crate::{Action, ListedCondition, Target};

impl View {
    /// Of each chain, the number of first rules that packets of the family may come to; 0 if nothing leads there. Only
    /// fields that every packet of the family shares count.
    pub fn reach(&self) -> Vec<usize> {
        let mut reach = vec![0; self.chains().len()];
        let mut open: Vec<usize> =
            (0..self.chains().len()).filter(|chain| self.chains()[*chain].base.is_some()).collect();
        while let Some(chain) = open.pop() {
            let rules = &self.chains()[chain].rules;
            if reach[chain] > 0 || rules.is_empty() {
                continue;
            }
            let end = rules.iter().position(|rule| self.ends_family(rule));
            reach[chain] = end.map_or(rules.len(), |end| end + 1);
            let taken = rules[..reach[chain]].iter().filter(|rule| self.is_of_family(rule));
            open.extend(taken.filter_map(|rule| rule.leads_to));
        }
        reach
    }

    pub fn is_of_family(&self, rule: &ViewRule) -> bool {
        rule.conditions.iter().all(|condition| match condition {
            ListedCondition::Nft(condition) => match condition.field {
                Field::Family => self.is_family(condition),
                Field::Source(of) | Field::Destination(of) => of == self.family(),
                _ => true,
            },
            _ => true,
        })
    }

    fn is_family(&self, condition: &crate::field::Condition) -> bool {
        let number = u128::from(family_number(self.family()));
        condition.negated != condition.values.numbers().any(|one| one == number)
    }

    /// Every packet of the family leaves the chain here.
    fn ends_family(&self, rule: &ViewRule) -> bool {
        let takes_all = rule.conditions.iter().all(|condition| match condition {
            ListedCondition::Nft(condition) => condition.field == Field::Family && self.is_family(condition),
            ListedCondition::Always(_) => true,
            _ => false,
        });
        takes_all && matches!(rule.action, Action::Target(Target::Return | Target::Accept | Target::Drop))
    }
}
