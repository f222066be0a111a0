//! Rules that nothing reaches, told by the items that made them.

use super::change::{Change, Removed};
use super::comparison::Comparison;
use super::findings::Redundant;
use super::{Code, Finding};
use rules::shadow::shadowed;
use rules::{Origin, Rule};

/// Rules that nothing reaches, if an item of a list made them that can be left out. `made_by` tells the
/// change that leaves out what made a rule.
pub(super) fn unreachable(
    comparison: &mut Comparison<'_>,
    made_by: impl Fn(Origin, &Rule) -> Option<Change>,
) -> Vec<Redundant> {
    let mut found: Vec<Redundant> = Vec::new();
    let Comparison { rules, work, .. } = comparison;
    for rules in rules {
        for shadowed in shadowed(rules.rules(), work) {
            let (Some(origin), Some(by)) = (shadowed.rule.origin, shadowed.by.origin) else { continue };
            if origin == by && shadowed.rule.rule == shadowed.by.rule {
                continue;
            }
            let Some(change) = made_by(origin, &shadowed.rule.rule) else { continue };
            if made_by(by, &shadowed.by.rule).as_ref() == Some(&change) {
                continue;
            }
            let finding = finding(origin, &change.item, &shadowed.rule.rule, &shadowed.by.rule, by);
            found.push(Redundant { finding, change });
        }
    }
    found
}

/// The option that made a rule, as texts name it.
fn mention(origin: Origin) -> String {
    match origin.option_text().strip_prefix("--") {
        Some(long) => format!("{{--{long}}}"),
        None => origin.option_text(),
    }
}

fn finding(origin: Origin, item: &Removed, rule: &Rule, first: &Rule, by: Origin) -> Finding {
    let option = mention(by);
    let otherwise = match by.option {
        "" => String::new(),
        _ if by.option == origin.option => String::new(),
        _ => format!("; if it was meant to count, take it out of {option}"),
    };
    Finding::warning(
        Code::Unreachable,
        &mention(origin),
        format!("the rule `{rule}` is never reached: `{first}` ({option}) comes first"),
        format!("drop {item}{otherwise}"),
    )
}
