//! Conditions of a rule in one vocabulary for both backends.

use rules::nft::{Condition, Field, Intervals, protocol_number};
use rules::{Family, ListedCondition, Mark, Match, Protocol, render};
use std::borrow::Cow;
use std::mem::discriminant;

pub fn field_condition(condition: &ListedCondition) -> Option<Cow<'_, Condition>> {
    match condition {
        ListedCondition::Known(known) => known.condition().map(Cow::Owned),
        ListedCondition::Nft(condition) => Some(Cow::Borrowed(condition)),
        ListedCondition::Protocol(_)
        | ListedCondition::DestinationLocal(_)
        | ListedCondition::TcpFlags { .. }
        | ListedCondition::Always(_)
        | ListedCondition::Unknown(_) => None,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSummary {
    conditions: Vec<Condition>,
    pub udp: bool,
    /// True with conditions that lists do not name: the connection's state, a mark, or an unknown one.
    pub more: bool,
    pub comment: Option<String>,
}

impl RuleSummary {
    pub fn of(conditions: &[ListedCondition]) -> Self {
        let mut summary = Self::default();
        for condition in conditions {
            match condition {
                ListedCondition::Known(Match::Comment(comment)) => {
                    summary.comment = Some(comment.as_str().to_owned());
                }
                ListedCondition::Known(_) | ListedCondition::Nft(_) => {
                    field_condition(condition).into_iter().for_each(|one| summary.take(one.into_owned()));
                }
                ListedCondition::Always(_) | ListedCondition::Protocol(_) => {}
                ListedCondition::DestinationLocal(_)
                | ListedCondition::TcpFlags { .. }
                | ListedCondition::Unknown(_) => summary.more = true,
            }
        }
        summary
    }

    /// Condition on a field, of any family or mask.
    pub fn values(&self, field: Field) -> Option<&Condition> {
        self.conditions.iter().find(|one| discriminant(&one.field) == discriminant(&field))
    }

    pub fn source(&self) -> Option<&Condition> {
        self.values(Field::Source(Family::V4))
    }

    pub fn destination(&self) -> Option<&Condition> {
        self.values(Field::Destination(Family::V4))
    }

    pub fn ports(&self) -> Option<&Condition> {
        self.values(Field::DestinationPort)
    }

    fn take(&mut self, condition: Condition) {
        let Condition { field, negated, values } = &condition;
        self.more |= matches!(field, Field::Mark(_) | Field::ConnState | Field::Connmark(_));
        let udp = Intervals::one(protocol_number(Protocol::Udp).into());
        self.udp |= *field == Field::Protocol && !negated && values.meets(&udp);
        let held = |one: &&mut Condition| discriminant(&one.field) == discriminant(field);
        // Several owners in a rule are separate conditions; the policy only ever excludes several.
        match self.conditions.iter_mut().find(held) {
            Some(held) if held.negated == *negated => held.values.union(values),
            Some(held) => *held = condition,
            None => self.conditions.push(condition),
        }
    }
}

/// Values in `nft` syntax, but names without quotes, `+` for a prefix, and marks with their masks.
pub fn items(condition: &Condition) -> Vec<String> {
    let item = |text: &String| match (condition.field, text.parse::<u32>()) {
        (Field::Mark(mask), Ok(value)) => Mark { value, mask }.to_string(),
        _ => text.trim_matches('"').replace('*', "+"),
    };
    render::nft::values(condition).iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::parse;
    use rules::simulate::View;

    fn summarized(rule: &str) -> (RuleSummary, Vec<ListedCondition>) {
        let text = format!("*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT {rule} -j RETURN\nCOMMIT\n");
        let view = View::of_listing(parse::listing(&text, Family::V4).expect("a listing"));
        let conditions =
            view.chains().iter().flat_map(|chain| &chain.rules).flat_map(|rule| rule.conditions.clone());
        let conditions: Vec<ListedCondition> = conditions.collect();
        (RuleSummary::of(&conditions), conditions)
    }

    #[test]
    fn rules_are_about_their_values() {
        let (summary, _) = summarized("-s 10.0.0.0/8 -d 10.1.2.3/32 -o eth0 -p tcp -m tcp --dport 80:81");
        let texts = |field: Field| summary.values(field).map(|values| items(values).join(" "));
        assert_eq!(texts(Field::Source(Family::V4)).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(texts(Field::Destination(Family::V4)).as_deref(), Some("10.1.2.3"));
        assert_eq!(texts(Field::DestinationPort).as_deref(), Some("80-81"));
        assert_eq!(texts(Field::OutInterface).as_deref(), Some("eth0"));
        for field in [Field::Uid, Field::ConnState] {
            assert_eq!(texts(field), None, "{field:?}");
        }
        assert!(!summary.udp && !summary.more);
        let (summary, _) = summarized("-i lo -m owner ! --uid-owner 1337");
        let shown = |of: Option<&Condition>| of.map(|one| (one.negated, items(one).join(" ")));
        assert_eq!(shown(summary.values(Field::InInterface)), Some((false, "lo".to_owned())));
        assert_eq!(shown(summary.values(Field::Uid)), Some((true, "1337".to_owned())));
        let (summary, _) = summarized("! -p udp -m mark --mark 0x1/0x3 -m comment --comment mine");
        assert!(!summary.udp && summary.more);
        assert_eq!(shown(summary.values(Field::Mark(0))), Some((false, "0x1/0x3".to_owned())));
        assert_eq!(summary.comment.as_deref(), Some("mine"));
    }

    #[test]
    fn marks_have_their_masks_in_either_backend() {
        for mark in ["1337", "0x539/0xfff"] {
            let (summary, conditions) = summarized(&format!("-m mark ! --mark {mark}"));
            let shown = summary.values(Field::Mark(0)).map(|one| (one.negated, items(one)));
            assert_eq!(shown, Some((true, vec![mark.to_owned()])));
            let condition = conditions.iter().find_map(field_condition).expect("a field").into_owned();
            assert_eq!(RuleSummary::of(&[ListedCondition::Nft(condition)]), summary);
        }
    }

    #[test]
    fn conditions_have_at_most_one_field() {
        let fields = |rule: &str| {
            let (_, conditions) = summarized(rule);
            let fields = conditions.iter().filter_map(|one| field_condition(one).map(|found| found.field));
            fields.collect::<Vec<_>>()
        };
        assert_eq!(fields("-o eth0 -m owner --gid-owner 7"), [Field::OutInterface, Field::Gid]);
        let (_, conditions) = summarized("-o eth0");
        let condition = field_condition(&conditions[0]).expect("a field").into_owned();
        let listed = ListedCondition::Nft(condition.clone());
        assert_eq!(field_condition(&listed).as_deref(), Some(&condition));
        assert_eq!(field_condition(&ListedCondition::Unknown("x".to_owned())), None);
    }
}
