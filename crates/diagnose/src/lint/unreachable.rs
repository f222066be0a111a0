//! Rules that no packet reaches, reported by the items that made them.

use super::change::{AdvisedChange, Redundant};
use super::comparison::LintComparison;
use super::{Code, Finding};
use mesh::{ListItem, RuleReason, Selector};
use rules::simulate::{Unreached, unreached};
use rules::{Origin, Rule};

/// Rules that nothing reaches, if an item of a list made them that can be left out. `made_by` finds the item that made a
/// rule.
pub(super) fn unreachable<'a>(
    comparison: &mut LintComparison<'_>,
    made_by: impl Fn(Origin, &Rule) -> Option<&'a ListItem>,
) -> Vec<Redundant> {
    let mut found: Vec<Redundant> = Vec::new();
    let mut work = comparison.work;
    for rules in comparison.rules() {
        for Unreached { rule, by } in unreached(rules.rules(), &mut work) {
            let (Some(origin), Some(by_origin)) = (rule.origin, by.origin) else { continue };
            if origin == by_origin && rule.rule == by.rule {
                continue;
            }
            let Some(item) = made_by(origin, &rule.rule) else { continue };
            if made_by(by_origin, &by.rule) == Some(item) {
                continue;
            }
            let finding = finding(origin, &item.selector, &rule.rule, &by.rule, by_origin);
            found.push(Redundant { finding, change: AdvisedChange::without(item) });
        }
    }
    comparison.work = work;
    found
}

/// The option that made a rule, as texts name it.
fn mention(origin: Origin) -> String {
    RuleReason::setting_of(origin).map_or_else(|| origin.option_text(), |setting| setting.row().mention())
}

fn finding(origin: Origin, item: &Selector, rule: &Rule, first: &Rule, by: Origin) -> Finding {
    let option = mention(by);
    let otherwise = match by.option {
        "" => String::new(),
        _ if by.option == origin.option => String::new(),
        _ => format!("; if it should count, take it out of {option}"),
    };
    Finding::warning(
        Code::Unreachable,
        &mention(origin),
        format!("the rule `{rule}` is never reached: `{first}` ({option}) comes first"),
        format!("drop {item}{otherwise}"),
    )
}
