//! The rules of a chain that end the walk of what fulfils them, found by what a later rule asks.
//!
//! A list of thousands of networks makes thousands of rules of few shapes. So a rule is not compared with each one
//! before it: for every shape, what it asks says by itself under which key a weaker rule would be kept.

use super::Work;
use crate::{ChainName, Cidr, Match, Negatable, PortRange};
use std::collections::{BTreeMap, HashMap};
use std::mem::{Discriminant, discriminant};

/// When a rule ends the walk of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Terminating {
    Always,
    /// If this chain does.
    Chain(ChainName),
}

/// One condition of a rule, and how often what it asks for had been written before.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Asked<'a> {
    pub(super) condition: &'a Match,
    pub(super) time: usize,
}

/// What of a condition is part of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    Source(u8),
    Destination(u8),
    SourcePort,
    DestinationPort,
    Whole,
}

/// A condition of a shape.
type Ask = (Part, Discriminant<Match>);

#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    Network(Cidr),
    Whole(Asked<'a>),
    /// A range of ports is no part of the key: it is looked for behind it.
    Ports,
}

/// Of the rules behind one key, the ranges of ports that lie in no other's, with the place of their rule. Rules without
/// ports have all of them.
#[derive(Default)]
struct Ranges(BTreeMap<u16, (u16, usize)>);

struct Shape<'a> {
    terminating: Terminating,
    asks: Vec<Ask>,
    rules: HashMap<Vec<Key<'a>>, Ranges>,
}

#[derive(Default)]
pub(super) struct Index<'a>(Vec<Shape<'a>>);

impl<'a> Index<'a> {
    /// Adds the rule at this place of its chain.
    pub(super) fn add(&mut self, terminating: &Terminating, conditions: &[Asked<'a>], place: usize) {
        let mut asked: Vec<(Ask, Asked<'a>)> = conditions.iter().map(|asked| (ask(asked), *asked)).collect();
        // One condition has its ports looked for, the others stand as they are.
        let first = |wanted: fn(Part) -> bool| asked.iter().position(|((part, _), _)| wanted(*part));
        let ports = first(|part| part == Part::DestinationPort).or_else(|| first(is_port));
        for (index, ((part, _), _)) in asked.iter_mut().enumerate() {
            if is_port(*part) && Some(index) != ports {
                *part = Part::Whole;
            }
        }
        let sets = |(ask, asked): &(Ask, Asked<'a>)| match asked.condition {
            Match::DestinationPorts(Negatable::Is(set)) => Some((*ask, set.ranges())),
            _ => None,
        };
        if let (None, Some((ask, ranges))) = (ports, asked.iter().find_map(sets)) {
            let (at, _) = asked.iter().enumerate().find(|(_, (a, _))| *a == ask).expect("found before");
            let mut single = asked.clone();
            // Whoever asks for one port of the set asks for the set.
            single[at].0 = (Part::DestinationPort, discriminant(&any_port()));
            ranges.iter().for_each(|range| self.put(terminating, &single, Some(*range), place));
        }
        let range = ports.and_then(|at| port_range(asked[at].1.condition));
        self.put(terminating, &asked, range, place);
    }

    fn put(
        &mut self,
        terminating: &Terminating,
        asked: &[(Ask, Asked<'a>)],
        range: Option<PortRange>,
        place: usize,
    ) {
        let asks: Vec<Ask> = asked.iter().map(|(ask, _)| *ask).collect();
        let key = asked.iter().map(|((part, _), asked)| key(*part, asked)).collect();
        let known = self.0.iter().position(|shape| shape.terminating == *terminating && shape.asks == asks);
        let at = known.unwrap_or_else(|| {
            self.0.push(Shape { terminating: terminating.clone(), asks, rules: HashMap::new() });
            self.0.len() - 1
        });
        let (first, last) = range.map_or((0, u16::MAX), |r| (r.first().number(), r.last().number()));
        self.0[at].rules.entry(key).or_default().add(first, last, place);
    }

    /// The place of a rule that is fulfilled by whatever fulfils these conditions, of those whose taker is one.
    pub(super) fn subsumes(
        &self,
        conditions: &[Asked<'a>],
        mut takes: impl FnMut(&Terminating, &mut Work) -> bool,
        work: &mut Work,
    ) -> Option<usize> {
        let mut answers: Vec<(&Terminating, bool)> = Vec::new();
        for shape in &self.0 {
            work.spend(1)?;
            let Some((keys, range)) = keys(&shape.asks, conditions) else { continue };
            work.spend(keys.len())?;
            let found = keys.iter().find_map(|key| shape.rules.get(key)?.around(range));
            let Some(place) = found else { continue };
            let known = answers
                .iter()
                .find(|(terminating, _)| **terminating == shape.terminating)
                .map(|(_, answer)| *answer);
            let ends = known.unwrap_or_else(|| takes(&shape.terminating, work));
            if ends {
                return Some(place);
            }
            answers.push((&shape.terminating, false));
        }
        None
    }
}

impl Ranges {
    fn add(&mut self, first: u16, last: u16, place: usize) {
        if self.covering(first, last).is_some() {
            return;
        }
        let inside: Vec<u16> =
            self.0.range(first..).take_while(|(_, (other, _))| *other <= last).map(|(at, _)| *at).collect();
        inside.iter().for_each(|at| {
            self.0.remove(at);
        });
        self.0.insert(first, (last, place));
    }

    /// None lies in another, so of those that start in time the last one ends last.
    fn covering(&self, first: u16, last: u16) -> Option<usize> {
        let (_, (end, place)) = self.0.range(..=first).next_back()?;
        (last <= *end).then_some(*place)
    }

    fn around(&self, range: Option<PortRange>) -> Option<usize> {
        let (first, last) = range.map_or((0, u16::MAX), |r| (r.first().number(), r.last().number()));
        self.covering(first, last)
    }
}

/// The keys under which a shape keeps what is weaker than these conditions, and the ports to look for behind them.
fn keys<'a>(asks: &[Ask], conditions: &[Asked<'a>]) -> Option<(Vec<Vec<Key<'a>>>, Option<PortRange>)> {
    let mut keys: Vec<Vec<Asked<'a>>> = vec![Vec::new()];
    let mut range = None;
    for (part, kind) in asks {
        let fitting: Vec<Asked<'a>> = conditions
            .iter()
            .filter(|asked| discriminant(asked.condition) == *kind && offers(*part, asked.condition))
            .copied()
            .collect();
        if is_port(*part) {
            range = fitting.first().and_then(|asked| port_range(asked.condition));
        }
        keys = keys
            .iter()
            .flat_map(|before| fitting.iter().map(|more| [&before[..], &[*more]].concat()))
            .collect();
        if keys.is_empty() {
            return None;
        }
    }
    let key = |chosen: &Vec<Asked<'a>>| {
        asks.iter().zip(chosen).map(|((part, _), asked)| key(*part, asked)).collect()
    };
    Some((keys.iter().map(key).collect(), range))
}

fn ask(asked: &Asked<'_>) -> Ask {
    let part = match asked.condition {
        Match::Source(Negatable::Is(cidr)) => Part::Source(cidr.length()),
        Match::Destination(Negatable::Is(cidr)) => Part::Destination(cidr.length()),
        Match::SourcePort(Negatable::Is(_)) => Part::SourcePort,
        Match::DestinationPort(Negatable::Is(_)) => Part::DestinationPort,
        _ => Part::Whole,
    };
    (part, discriminant(asked.condition))
}

/// Whether a condition can be cut down to this part.
fn offers(part: Part, condition: &Match) -> bool {
    match (part, condition) {
        (Part::Source(length), Match::Source(Negatable::Is(cidr)))
        | (Part::Destination(length), Match::Destination(Negatable::Is(cidr))) => length <= cidr.length(),
        (Part::SourcePort | Part::DestinationPort, condition) => port_range(condition).is_some(),
        (Part::Whole, _) => true,
        (Part::Source(_) | Part::Destination(_), _) => false,
    }
}

fn key<'a>(part: Part, asked: &Asked<'a>) -> Key<'a> {
    match (part, asked.condition) {
        (
            Part::Source(length) | Part::Destination(length),
            Match::Source(cidr) | Match::Destination(cidr),
        ) => {
            let wide = Cidr::new(cidr.value().address(), length).expect("no longer than it was");
            Key::Network(wide)
        }
        (Part::SourcePort | Part::DestinationPort, _) => Key::Ports,
        _ => Key::Whole(*asked),
    }
}

fn is_port(part: Part) -> bool {
    matches!(part, Part::SourcePort | Part::DestinationPort)
}

fn port_range(condition: &Match) -> Option<PortRange> {
    match condition {
        Match::SourcePort(Negatable::Is(range)) | Match::DestinationPort(Negatable::Is(range)) => {
            Some(*range)
        }
        _ => None,
    }
}

fn any_port() -> Match {
    let (first, last) = (crate::Port::new(1), crate::Port::new(u16::MAX));
    let range = first.zip(last).and_then(|(first, last)| PortRange::new(first, last));
    Match::DestinationPort(Negatable::Is(range.expect("in order")))
}
