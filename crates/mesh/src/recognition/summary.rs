//! What a rule matches, whichever backend holds it: iptables' matches and the conditions of nf_tables in the same
//! few words.

use rules::nft::{self, Field};
use rules::{ListedCondition, Mark, Match, render};
use std::borrow::Cow;

/// The field that a listed condition looks at and the values that it matches, however the backend writes it; `None` where
/// it looks at none, or is not understood.
pub fn field_condition(condition: &ListedCondition) -> Option<Cow<'_, nft::Condition>> {
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

/// The values that a field may have, or, negated, may not.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldValues {
    pub negated: bool,
    pub items: Vec<String>,
}

/// The fields that rules of the policy ask about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleSummary {
    pub in_interface: Option<FieldValues>,
    pub out_interface: Option<FieldValues>,
    pub source: Option<FieldValues>,
    pub destination: Option<FieldValues>,
    pub destination_port: Option<FieldValues>,
    pub uid: Option<FieldValues>,
    pub gid: Option<FieldValues>,
    /// The mark of the packet, as [`Mark`] is written.
    pub mark: Option<FieldValues>,
    /// Whether it matches TCP; UDP. Neither, if it matches no protocol.
    pub tcp: bool,
    pub udp: bool,
    /// Whether it matches the state of the connection, a mark, or anything that is not understood: what lists do not name.
    pub more: bool,
    /// The rule's own words about it.
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
                ListedCondition::Known(known) => {
                    let Some(condition) = known.condition() else { continue };
                    let items = match known {
                        // As they were given: `+` for all that start so, and the order of ports.
                        Match::InInterface(name) | Match::OutInterface(name) => {
                            vec![name.value().to_string()]
                        }
                        Match::DestinationPorts(ports) => {
                            ports.value().ranges().iter().map(|range| range.dashed().to_string()).collect()
                        }
                        _ => items(&condition),
                    };
                    summary.field(condition.field, FieldValues { negated: condition.negated, items });
                }
                ListedCondition::Nft(condition) => {
                    let values = FieldValues { negated: condition.negated, items: items(condition) };
                    summary.field(condition.field, values);
                }
                ListedCondition::Always(_) | ListedCondition::Protocol(_) => {}
                ListedCondition::DestinationLocal(_)
                | ListedCondition::TcpFlags { .. }
                | ListedCondition::Unknown(_) => {
                    summary.more = true;
                }
            }
        }
        summary
    }

    /// The values of a field.
    pub fn values(&self, field: Field) -> Option<&FieldValues> {
        let values = match field {
            Field::InInterface => &self.in_interface,
            Field::OutInterface => &self.out_interface,
            Field::Source(_) => &self.source,
            Field::Destination(_) => &self.destination,
            Field::DestinationPort => &self.destination_port,
            Field::Uid => &self.uid,
            Field::Gid => &self.gid,
            Field::Mark(_) => &self.mark,
            Field::Family | Field::Protocol | Field::SourcePort | Field::ConnState | Field::Connmark(_) => {
                &None
            }
        };
        values.as_ref()
    }

    fn field(&mut self, field: Field, values: FieldValues) {
        match field {
            Field::InInterface => self.in_interface = Some(values),
            Field::OutInterface => self.out_interface = Some(values),
            Field::Source(_) => self.source = Some(values),
            Field::Destination(_) => self.destination = Some(values),
            Field::DestinationPort => self.destination_port = Some(values),
            Field::Uid => merge(&mut self.uid, values),
            Field::Gid => merge(&mut self.gid, values),
            Field::Mark(_) => {
                self.mark = Some(values);
                self.more = true;
            }
            Field::ConnState | Field::Connmark(_) => self.more = true,
            Field::Protocol if !values.negated => {
                self.tcp |= values.items.iter().any(|item| item == "tcp");
                self.udp |= values.items.iter().any(|item| item == "udp");
            }
            Field::Family | Field::Protocol | Field::SourcePort => {}
        }
    }
}

/// Several owners in a rule are separate conditions; the policy only ever excludes several.
fn merge(held: &mut Option<FieldValues>, more: FieldValues) {
    match held {
        Some(held) if held.negated == more.negated => held.items.extend(more.items),
        _ => *held = Some(more),
    }
}

/// The values of a condition as `nft` writes them, but names without quotes, and marks with their masks.
fn items(condition: &nft::Condition) -> Vec<String> {
    let item = |text: &String| match (condition.field, text.parse::<u32>()) {
        (Field::Mark(mask), Ok(value)) => Mark { value, mask }.to_string(),
        _ => text.trim_matches('"').to_owned(),
    };
    render::nft::values(condition).iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rules::simulate::View;
    use rules::{Family, parse};

    /// The summary of the only rule of a listing, and its conditions.
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
        let items = |field: Field| summary.values(field).map(|values| values.items.join(" "));
        assert_eq!(items(Field::Source(Family::V4)).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(items(Field::Destination(Family::V4)).as_deref(), Some("10.1.2.3"));
        assert_eq!(items(Field::DestinationPort).as_deref(), Some("80-81"));
        assert_eq!(items(Field::OutInterface).as_deref(), Some("eth0"));
        for field in [Field::Uid, Field::SourcePort, Field::ConnState] {
            assert_eq!(items(field), None, "{field:?}");
        }
        assert!(summary.tcp && !summary.udp && !summary.more);
        let (summary, _) = summarized("-i lo -m owner ! --uid-owner 1337");
        let interface = FieldValues { negated: false, items: vec!["lo".to_owned()] };
        assert_eq!(summary.values(Field::InInterface), Some(&interface));
        assert_eq!(summary.uid, Some(FieldValues { negated: true, items: vec!["1337".to_owned()] }));
        let (summary, _) = summarized("! -p udp -m mark --mark 0x1/0x3 -m comment --comment mine");
        assert!(!summary.tcp && !summary.udp && summary.more);
        assert_eq!(summary.mark, Some(FieldValues { negated: false, items: vec!["0x1/0x3".to_owned()] }));
        assert_eq!(summary.comment.as_deref(), Some("mine"));
    }

    #[test]
    fn marks_have_their_masks_in_either_backend() {
        for mark in ["1337", "0x539/0xfff"] {
            let (summary, conditions) = summarized(&format!("-m mark ! --mark {mark}"));
            assert_eq!(summary.mark, Some(FieldValues { negated: true, items: vec![mark.to_owned()] }));
            let condition = conditions.iter().find_map(field_condition).expect("a field").into_owned();
            assert_eq!(RuleSummary::of(&[ListedCondition::Nft(condition)]).mark, summary.mark);
        }
    }

    #[test]
    fn conditions_tell_their_fields_where_they_have_one() {
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
