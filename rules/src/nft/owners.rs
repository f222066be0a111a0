//! Negated conditions on the owner of a packet's socket, such as `! --uid-owner 1337`.
//!
//! A packet without a socket (a reset, an ICMP error, a forwarded one) has no owner. To iptables it is then none of
//! those that a rule names, so `! --uid-owner` holds (`owner_mt` in `xt_owner.c`). In nf_tables a rule that asks for
//! the owner ends there, whichever it wants (`nft_meta_get_eval_skugid` in `nft_meta.c`). So no rule of our table
//! negates the owner: what remains of such conditions after [`super::compact`] is rewritten here.

use super::compact::decides;
use super::draft::Draft;
use super::{Base, Effect};
use crate::field::{Condition, Field};
use crate::{Target, WriteSet};

pub(super) fn is_negated_owner(condition: &Condition) -> bool {
    condition.negated && matches!(condition.field, Field::Uid | Field::Gid)
}

pub(super) type NamedChain = (String, Option<Base>, Vec<Draft>);

/// The chain without negated conditions on the owner. Before a rule that has one, the packets of these owners leave for
/// the rules after it, which become another chain.
pub(super) fn split((name, base, drafts): NamedChain) -> Vec<NamedChain> {
    let mut done: Vec<NamedChain> = Vec::new();
    let mut part: NamedChain = (name.clone(), base, Vec::with_capacity(drafts.len()));
    let mut drafts = drafts.into_iter().peekable();
    while let Some(mut draft) = drafts.next() {
        let owners: Vec<Condition> = draft.conditions.extract_if(.., |c| is_negated_owner(c)).collect();
        if owners.is_empty() {
            part.2.push(draft);
            continue;
        }
        let mut with_owners = [&draft.conditions[..], &owners[..]].concat();
        with_owners.sort();
        let bare = Draft { report: None, writes: WriteSet::NOTHING, ..draft.clone() };
        // Two rules about the same packets, such as those of one TPROXY, are separated from the rest once.
        let mut same = vec![draft];
        while let Some(next) = drafts.next_if(|next| next.conditions == with_owners) {
            same.push(Draft { conditions: bare.conditions.clone(), ..next });
        }
        let rest = drafts.peek().map(|_| format!("{name}/{}", done.len() + 2));
        let is_end = bare.conditions.is_empty() && same.iter().any(|draft| decides(&draft.effect));
        let leave = rest.clone().map_or(Effect::Target(Target::Return), Effect::Goto);
        part.2.extend(owners.iter().map(|owner| {
            let mut conditions = [&bare.conditions[..], &[owner.opposite()]].concat();
            conditions.sort();
            Draft { conditions, effect: leave.clone(), ..bare.clone() }
        }));
        part.2.append(&mut same);
        if let Some(rest) = rest {
            if !is_end {
                part.2.push(Draft { conditions: Vec::new(), effect: leave, ..bare });
            }
            done.push(std::mem::replace(&mut part, (rest, None, Vec::new())));
        }
    }
    done.push(part);
    done
}
