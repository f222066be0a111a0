//! What rules do to a part of the traffic, as arrows: every path through the chains, with the conditions on packets.
//!
//! A walk is made once for all packets. A match is kept as a condition, or is settled at once where the part of
//! the traffic settles it: packets out of the pod arrive by no interface. Calls of chains are followed in place, so that
//! arrows are in the order in which rules decide. Capture ends the path of a packet: policies write all other rules before it.

use super::flow::{FlowDisposition, Is};
use super::panel::TrafficPart;
use rules::{
    Chain, Cidr, ConnState, Family, Hook, InterfaceName, Mark, Match, Negatable, Origin, RuleSet, Statement,
    Table, Target,
};
use std::collections::BTreeMap;

/// Packets that fulfil all conditions, and no earlier arrow's, come to this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) needs: Vec<Is>,
    pub(super) disposition: FlowDisposition,
    /// Why the rule that decides is there; `None` where no rule does.
    pub(super) origin: Option<Origin>,
}

/// What is known of the packets before any rule is met.
pub(super) struct Assumptions<'a> {
    pub(super) part: TrafficPart,
    /// By which interfaces virtual machines send.
    pub(super) machines: &'a [InterfaceName],
    /// Marks that packets may have from their sender, beside none.
    pub(super) marks: &'a [Mark],
}

/// The arrows of a part. The last one speaks of all packets that are left. Packets that belong to no connection have their
/// arrows first, where any are dropped.
pub(super) fn arrows(rules: &RuleSet, assumed: &Assumptions<'_>) -> Vec<Arrow> {
    let of_state = |state| {
        let mut walker = PictureWalker::new(rules, assumed, state);
        let needs = if state == ConnState::Invalid { vec![Is::Invalid] } else { Vec::new() };
        walker.stage(0, WalkState { needs, ..WalkState::default() });
        walker.arrows
    };
    let mut arrows = of_state(ConnState::Invalid);
    // Where none of them is dropped, nothing about them is shown.
    let dropped = arrows.iter().rposition(|arrow| arrow.disposition == FlowDisposition::Dropped);
    arrows.truncate(dropped.map_or(0, |last| last + 1));
    if dropped.is_some() {
        arrows.push(Arrow { needs: vec![Is::Invalid], disposition: FlowDisposition::Passing, origin: None });
    }
    arrows.extend(of_state(ConnState::New));
    arrows
}

/// Some of the packets on their way.
#[derive(Clone, Default)]
struct WalkState {
    needs: Vec<Is>,
    /// The mark that a rule has set; `None` while it is the sender's.
    mark: Option<u32>,
    connmark: u32,
    /// The rule that let them go last.
    passed: Option<Origin>,
}

/// A chain that is being walked.
#[derive(Clone, Copy)]
struct ChainFrame<'a> {
    rules: &'a [&'a Statement],
    next: usize,
    /// The rule that led here, where the chain only does what that rule is for.
    led_by: Option<Origin>,
}

/// How far packets were followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walked {
    ToTheEnd,
    BackInCaller,
}

type WalkedChains<'a> = BTreeMap<Chain, Vec<&'a Statement>>;

struct PictureWalker<'a> {
    assumed: &'a Assumptions<'a>,
    connection: ConnState,
    chains: BTreeMap<Table, WalkedChains<'a>>,
    stages: Vec<(Hook, Table)>,
    arrows: Vec<Arrow>,
}

impl<'a> PictureWalker<'a> {
    fn new(rules: &'a RuleSet, assumed: &'a Assumptions<'a>, connection: ConnState) -> Self {
        let hooks: &[Hook] = match assumed.part {
            TrafficPart::Inbound | TrafficPart::Machines => &[Hook::Prerouting, Hook::Input],
            TrafficPart::Outbound => &[Hook::Output, Hook::Postrouting],
            TrafficPart::Within => &[Hook::Output, Hook::Postrouting, Hook::Prerouting, Hook::Input],
        };
        let chains: BTreeMap<Table, WalkedChains<'a>> =
            Table::ALL.into_iter().map(|table| (table, rules.chains(table))).collect();
        let starts = connection == ConnState::New;
        let stages = hooks.iter().enumerate().flat_map(|(number, hook)| {
            // NAT decides at the first hook alone, and only at the start of a connection.
            let asks = move |table: &Table| *table != Table::Nat || (starts && number == 0);
            Table::ALL.into_iter().filter(asks).map(|table| (*hook, table))
        });
        Self { assumed, connection, stages: stages.collect(), chains, arrows: Vec::new() }
    }

    fn chain(&self, table: Table, chain: &Chain) -> Vec<&'a Statement> {
        self.chains.get(&table).and_then(|chains| chains.get(chain)).cloned().unwrap_or_default()
    }

    /// Packets come to a base chain, or are through.
    fn stage(&mut self, number: usize, state: WalkState) {
        let Some(&(hook, table)) = self.stages.get(number) else {
            let WalkState { needs, passed: origin, .. } = state;
            self.arrows.push(Arrow { needs, disposition: FlowDisposition::Passing, origin });
            return;
        };
        let rules = self.chain(table, &Chain::Base(hook));
        self.walk(number, &[ChainFrame { rules: &rules, next: 0, led_by: None }], state, None);
    }

    /// Follows packets through the innermost of these chains and then through those that called it. With `callers`, it
    /// stops where only that many chains are left and no mark has changed: the caller then goes on with all packets, as those
    /// that the called chain has decided about have their arrows already. Without this, each rule that calls a chain would
    /// double the number of walks.
    fn walk(
        &mut self,
        number: usize,
        frames: &[ChainFrame<'_>],
        mut state: WalkState,
        callers: Option<usize>,
    ) -> Walked {
        let (hook, table) = self.stages[number];
        let mut frames = frames.to_vec();
        let marks = |state: &WalkState| (state.mark, state.connmark);
        let before = marks(&state);
        loop {
            let Some(frame) = frames.last_mut() else {
                self.stage(number + 1, state);
                return Walked::ToTheEnd;
            };
            let Some(statement) = frame.rules.get(frame.next) else {
                frames.pop();
                if callers == Some(frames.len()) && marks(&state) == before {
                    return Walked::BackInCaller;
                }
                continue;
            };
            frame.next += 1;
            let led_by = frame.led_by;
            let Some(taken) = self.taken(hook, &statement.rule.matches, &state) else { continue };
            let is_always = taken.needs.len() == state.needs.len();
            // The rules of both families become one arrow, whichever holds the addresses.
            let origin = statement.origin.map(|origin| Origin { item: None, ..origin });
            let decider = led_by.or(origin);
            let passed = || WalkState { passed: origin, ..taken.clone() };
            match &statement.rule.target {
                Target::Accept => self.stage(number + 1, passed()),
                Target::Return => {
                    self.walk(number, &frames[..frames.len() - 1], passed(), None);
                }
                Target::Drop => self.end(taken, FlowDisposition::Dropped, decider),
                Target::Redirect(ports) => self.end(taken, FlowDisposition::Captured(*ports), decider),
                Target::Tproxy { port, .. } => {
                    self.end(taken, FlowDisposition::Captured((*port).into()), decider);
                }
                // What another program's chain does is not known here.
                Target::JumpForeign(_) => self.end(taken, FlowDisposition::Unknown, decider),
                Target::Jump(name) => {
                    let rules = self.chain(table, &Chain::User(name.clone()));
                    let is_end = rules.iter().all(|statement| is_end(&statement.rule.target));
                    let led_by = if is_end { decider } else { None };
                    let mut inner = frames.clone();
                    inner.push(ChainFrame { rules: &rules, next: 0, led_by });
                    if self.walk(number, &inner, taken, Some(frames.len())) == Walked::BackInCaller {
                        continue;
                    }
                }
                target => match written(target, &taken) {
                    None => continue,
                    // Nothing changes that is not so already.
                    Some(written) if marks(&written) == marks(&state) => continue,
                    Some(written) if is_always => {
                        state = written;
                        continue;
                    }
                    Some(written) => {
                        self.walk(number, &frames, written, None);
                    }
                },
            }
            if is_always {
                return Walked::ToTheEnd;
            }
        }
    }

    fn end(&mut self, state: WalkState, disposition: FlowDisposition, origin: Option<Origin>) {
        self.arrows.push(Arrow { needs: state.needs, disposition, origin });
    }

    /// Those of the packets that fulfil the conditions; `None` if there are none.
    fn taken(&self, hook: Hook, matches: &[Match], state: &WalkState) -> Option<WalkState> {
        let mut taken = state.clone();
        for condition in matches {
            match self.condition(hook, condition, state) {
                Requirement::Settled(true) => {}
                Requirement::Settled(false) => return None,
                Requirement::Open(need) => add(&mut taken.needs, need)?,
            }
        }
        Some(taken)
    }

    fn condition(&self, hook: Hook, condition: &Match, state: &WalkState) -> Requirement {
        use Requirement::{Open, Settled};
        let leaves = matches!(hook, Hook::Output | Hook::Postrouting);
        match condition {
            Match::Comment(_) | Match::ProtocolModule(_) => Settled(true),
            Match::Source(operand) | Match::Destination(operand) if operand.value().is_everything() => {
                Settled(operand.holds(true))
            }
            // The kernel takes no such packet from outside, and sends none there.
            Match::Destination(operand)
                if self.assumed.part != TrafficPart::Within && is_loopback(*operand.value()) =>
            {
                Settled(operand.holds(false))
            }
            Match::Source(operand) => negatable(operand, |network| Is::From(vec![*network])),
            Match::Destination(operand) => negatable(operand, |network| Is::To(vec![*network])),
            Match::InInterface(operand) if leaves => Settled(operand.holds(false)),
            Match::OutInterface(operand) if !leaves => Settled(operand.holds(false)),
            Match::InInterface(operand) | Match::OutInterface(operand) => self.interface(operand),
            Match::Protocol(rules::Protocol::Tcp) => Open(Is::Tcp),
            Match::Protocol(rules::Protocol::Udp) => Open(Is::Udp),
            Match::SourcePort(operand) => negatable(operand, |ports| Is::FromPorts(vec![*ports])),
            Match::DestinationPort(operand) => negatable(operand, |ports| Is::Ports(vec![*ports])),
            Match::DestinationPorts(operand) => negatable(operand, |ports| Is::ports(ports.ranges())),
            // The sender of a packet that arrives is not known.
            Match::UidOwner(operand) if !leaves => Settled(operand.holds(false)),
            Match::GidOwner(operand) if !leaves => Settled(operand.holds(false)),
            Match::UidOwner(operand) => negatable(operand, |users| Is::Of(vec![*users], Vec::new())),
            Match::GidOwner(operand) => negatable(operand, |group| Is::Of(Vec::new(), vec![*group])),
            Match::ConnState(operand) => {
                Settled(operand.holds(operand.value().states().contains(&self.connection)))
            }
            Match::Mark(operand) => self.mark(operand, state),
            Match::Connmark(operand) => Settled(operand.holds(operand.value().covers(state.connmark))),
        }
    }

    fn interface(&self, operand: &Negatable<InterfaceName>) -> Requirement {
        let name = operand.value();
        let settled = match self.assumed.part {
            TrafficPart::Within => Some(name.covers(InterfaceName::loopback().as_str())),
            TrafficPart::Outbound => (*name == InterfaceName::loopback()).then_some(false),
            TrafficPart::Inbound => {
                let is_elsewhere = self.assumed.machines.contains(name) || *name == InterfaceName::loopback();
                is_elsewhere.then_some(false)
            }
            TrafficPart::Machines => (self.assumed.machines == [name.clone()]).then_some(true),
        };
        match settled {
            Some(has) => Requirement::Settled(operand.holds(has)),
            None => negatable(operand, |name| Is::Over(vec![name.clone()])),
        }
    }

    fn mark(&self, operand: &Negatable<Mark>, state: &WalkState) -> Requirement {
        let condition = operand.value();
        let has = |mark: u32| condition.covers(mark);
        let marks = self.assumed.marks;
        match state.mark {
            Some(mark) => Requirement::Settled(operand.holds(has(mark))),
            None if marks.iter().all(|mark| has(mark.value) == has(0)) => {
                Requirement::Settled(operand.holds(has(0)))
            }
            None => negatable(operand, |mark| Is::Marked(*mark)),
        }
    }
}

/// Whether all of a network's addresses are loopback's.
fn is_loopback(network: Cidr) -> bool {
    network.address().is_loopback() && (network.family() == Family::V6 || network.length() >= 8)
}

/// What a condition comes to.
enum Requirement {
    Settled(bool),
    Open(Is),
}

fn negatable<T>(operand: &Negatable<T>, need: impl Fn(&T) -> Is) -> Requirement {
    Requirement::Open(match operand {
        Negatable::Is(value) => need(value),
        Negatable::Not(value) => need(value).not(),
    })
}

/// Adds a condition; `None` if no packet fulfils it beside the others.
fn add(needs: &mut Vec<Is>, need: Is) -> Option<()> {
    let opposite = need.clone().not();
    let is_other_protocol = match need {
        Is::Tcp => needs.contains(&Is::Udp),
        Is::Udp => needs.contains(&Is::Tcp),
        _ => false,
    };
    if is_other_protocol || needs.contains(&opposite) {
        return None;
    }
    if !needs.contains(&need) {
        needs.push(need);
    }
    Some(())
}

/// Whether a chain of such rules does nothing but end what comes to it.
fn is_end(target: &Target) -> bool {
    use rules::Disposition::{Continues, Terminates};
    matches!(target.disposition(), Terminates | Continues)
}

/// The packets after a rule that changes their marks; `None` if it changes nothing that our rules match.
fn written(target: &Target, state: &WalkState) -> Option<WalkState> {
    Some(match target {
        Target::SetMark(mark) => {
            WalkState { mark: Some(mark.set_in(state.mark.unwrap_or_default())), ..state.clone() }
        }
        Target::SetConnmark(mark) => WalkState { connmark: mark.set_in(state.connmark), ..state.clone() },
        Target::SaveMark => WalkState { connmark: state.mark.unwrap_or_default(), ..state.clone() },
        Target::RestoreMark => WalkState { mark: Some(state.connmark), ..state.clone() },
        _ => return None,
    })
}
