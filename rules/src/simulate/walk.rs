//! The walk itself: hooks, tables, chains, and what targets do.
//!
//! Facts of the kernel that shape it, each seen in the differential tests:
//! - A hook's interfaces are fixed when it is entered: `filter` sees the way that the packet had before
//!   `nat` turned it around (`nf_hook_state` in `linux/netfilter.h`).
//! - A packet that a machine sends to itself passes OUTPUT and POSTROUTING, then PREROUTING and INPUT, with
//!   its mark and its connection, but without its socket. `nat` has decided by then.
//! - `nat` sees only packets that start a connection (`nf_nat_inet_fn`).
//! - TPROXY ends only its own table's walk. The socket it assigns gets the packet, be it rewritten by `nat`
//!   afterwards, and a packet that has a socket is never forwarded (`ip_forward`).

use super::facts::{Connection, Facts, Interface, port_in};
use super::packet::{Direction, LOOPBACK, Packet, Routing};
use super::trace::{At, Matched, Observer, Outcome, Step, Verdict};
use super::view::{Order, View, ViewRule};
use crate::nft::{Base, Kind};
use crate::{Action, ConnState, Family, Hook, Mark, Policy, Port, PortRange, Target};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Rules that one walk may meet. Chains can call each other so often that no walk would end; the kernel
/// itself refuses chains that reach themselves, but text does not.
const MOST_STEPS: usize = 100_000;
/// Depth of calls. The kernel's own limit depends on the number of chains.
const MOST_CALLS: usize = 128;

/// Chains of a lower priority see packets before conntrack does (`NF_IP_PRI_CONNTRACK` in
/// `linux/netfilter_ipv4.h`).
const NF_IP_PRI_CONNTRACK: i32 = -200;

/// Walks a packet through the rules in one order.
pub(super) fn walk_in(
    view: &View,
    order: &Order,
    routing: &Routing,
    packet: &Packet,
    observer: &mut impl Observer,
) -> Outcome {
    let stays = match &packet.direction {
        Direction::Outbound { interface, .. } => interface == LOOPBACK || routing.takes_mark(packet.mark),
        Direction::Inbound { local, .. } => *local,
    };
    let mut walker = Walker {
        view,
        order,
        routing,
        observer,
        facts: Facts::of(packet, routing),
        hook: Hook::Output,
        in_nat: false,
        stays,
        calls: Vec::new(),
        steps: 0,
        captured: None,
        passed: None,
        translated: false,
        destination_done: false,
        source_done: false,
    };
    let stopped = match &packet.direction {
        Direction::Outbound { .. } => walker.out(),
        Direction::Inbound { .. } => walker.arrive(),
    };
    walker.outcome(stopped.err())
}

/// The end of a packet before its way is done: what, and by which rule.
type Stop = (Verdict, Option<At>);

/// How the walk through a chain ended.
enum End {
    /// Back to the calling chain.
    Returned,
    /// The table is done with the packet.
    Accepted,
}

struct Walker<'a, O> {
    view: &'a View,
    order: &'a Order,
    routing: &'a Routing,
    observer: &'a mut O,
    facts: Facts<'a>,
    hook: Hook,
    /// Whether the base chain being walked does NAT.
    in_nat: bool,
    /// Whether the packet is for this machine.
    stays: bool,
    /// The rules whose chains are being walked.
    calls: Vec<At>,
    steps: usize,
    /// A capture, and the rule that decided it.
    captured: Option<(Verdict, At)>,
    /// The rule by which the packet was let go, and whether that was in `nat`, or else in another table.
    passed: Option<(bool, At)>,
    /// Whether the destination was changed by something else than a capture.
    translated: bool,
    /// Whether it is settled where the connection goes: a rule of NAT has said so, or none has in the first hook that
    /// asks. Nobody is asked again (`nf_nat_initialized` in `nf_nat_inet_fn`).
    destination_done: bool,
    /// The same of where it seems to come from.
    source_done: bool,
}

impl<O: Observer> Walker<'_, O> {
    /// A packet of this machine.
    fn out(&mut self) -> Result<(), Stop> {
        self.hook(Hook::Output)?;
        if self.stays {
            self.facts.leaves_by = Interface::Named(LOOPBACK);
        } else if self.translated {
            self.facts.leaves_by = Interface::Unknown;
        }
        self.hook(Hook::Postrouting)?;
        if !self.stays {
            return Ok(());
        }
        self.facts.owner = None;
        self.facts.leaves_by = Interface::None;
        self.facts.arrives_at = Interface::Named(LOOPBACK);
        self.hook(Hook::Prerouting)?;
        self.hook(Hook::Input)
    }

    /// A packet from outside.
    fn arrive(&mut self) -> Result<(), Stop> {
        self.hook(Hook::Prerouting)?;
        self.stays |= self.facts.mark.is_some_and(|mark| self.routing.takes_mark(mark));
        if self.stays {
            return self.hook(Hook::Input);
        }
        if let Some((Verdict::Tproxy(_), at)) = self.captured {
            return Err((Verdict::Drop, Some(at)));
        }
        self.facts.leaves_by = Interface::Unknown;
        self.hook(Hook::Forward)?;
        self.facts.arrives_at = Interface::None;
        self.hook(Hook::Postrouting)
    }

    fn hook(&mut self, hook: Hook) -> Result<(), Stop> {
        self.hook = hook;
        let is_first = !self.facts.is_tracked;
        for &chain in &self.order[hook as usize] {
            let Some(base) = self.view.chains()[chain].base else { continue };
            self.in_nat = base.kind == Kind::Nat;
            if self.in_nat && (!self.starts_connection() || self.is_settled()) {
                continue;
            }
            if is_first && base.priority >= NF_IP_PRI_CONNTRACK {
                self.facts.is_tracked = true;
            }
            let mark = self.facts.mark;
            let end = self.chain(chain);
            match (end, self.view.chains()[chain].policy) {
                // What source NAT does not tell, nobody can ask afterwards.
                (Err((Verdict::Unknown, _)), _) if self.is_source_nat() => self.forget_source(),
                (Err(stop), _) => return Err(stop),
                (Ok(End::Returned), Policy::Drop) => {
                    let rule = self.view.chains()[chain].rules.len();
                    return Err((Verdict::Drop, Some(At { chain, rule })));
                }
                (Ok(End::Accepted), _) | (Ok(End::Returned), Policy::Accept) => {}
            }
            self.route_again(base, mark);
        }
        self.facts.is_tracked = true;
        match hook {
            Hook::Prerouting | Hook::Output | Hook::Forward => self.destination_done = true,
            Hook::Input | Hook::Postrouting => self.source_done = true,
        }
        Ok(())
    }

    /// A mark that changed in `mangle` is routed anew (`ip_route_me_harder`).
    fn route_again(&mut self, base: Base, before: Option<u32>) {
        let changed = base.kind == Kind::Route && self.facts.mark != before;
        if changed && self.facts.mark.is_some_and(|mark| self.routing.takes_mark(mark)) {
            self.stays = true;
        }
    }

    fn starts_connection(&self) -> bool {
        matches!(self.facts.state, Some(ConnState::New | ConnState::Related))
    }

    /// Whether NAT has nothing to ask here any more.
    fn is_settled(&self) -> bool {
        match self.hook {
            Hook::Prerouting | Hook::Output | Hook::Forward => self.destination_done,
            Hook::Input | Hook::Postrouting => self.source_done,
        }
    }

    fn is_source_nat(&self) -> bool {
        self.in_nat && matches!(self.hook, Hook::Input | Hook::Postrouting)
    }

    fn forget_source(&mut self) {
        self.calls.clear();
        (self.facts.source, self.facts.source_port) = (None, None);
    }

    fn chain(&mut self, chain: usize) -> Result<End, Stop> {
        let view = self.view;
        for (rule, ViewRule { conditions, first, action, leads_to, .. }) in
            view.chains()[chain].rules.iter().enumerate()
        {
            let at = At { chain, rule };
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return Err((Verdict::Unknown, Some(at)));
            }
            let matched = self.facts.fulfil(conditions);
            self.observer.rule_met(Step { hook: self.hook, at, matched });
            match matched {
                Matched::No(_) => continue,
                Matched::Unknown(_) if first.iter().chain([action]).all(is_harmless) => continue,
                Matched::Unknown(_) => return Err((Verdict::Unknown, Some(at))),
                Matched::Yes => {}
            }
            for action in first {
                self.act(action, None, at)?;
            }
            if let Some(end) = self.act(action, *leads_to, at)? {
                return Ok(end);
            }
        }
        Ok(End::Returned)
    }

    /// Does what a rule says; `None` if the next rule follows.
    fn act(&mut self, action: &Action, leads_to: Option<usize>, at: At) -> Result<Option<End>, Stop> {
        match action {
            Action::Target(target) => return self.target(target, leads_to, at),
            Action::Call { returns: true, .. } => {
                if let End::Accepted = self.call(leads_to, at)? {
                    return Ok(Some(End::Accepted));
                }
            }
            Action::Goto(_) | Action::Call { returns: false, .. } => {
                // The end of that chain is the end of this one.
                return self.call(leads_to, at).map(Some);
            }
            Action::Continue(_) => {}
            Action::Reject => return Err((Verdict::Drop, Some(self.decider(at)))),
            Action::RedirectSamePort => {
                let port = self.facts.destination_port.and_then(Port::new);
                let port = port.ok_or((Verdict::Unknown, Some(at)))?;
                return Ok(Some(self.redirect(port.into(), at)));
            }
            Action::Destination { address, ports } => {
                self.translate(*address, *ports);
                return Ok(Some(End::Accepted));
            }
            Action::Source(_) => {
                (self.facts.source, self.facts.source_port) = (None, None);
                self.source_done = true;
                return Ok(Some(End::Accepted));
            }
            Action::Notrack => self.facts.state = None,
            Action::Marks(_) => {
                self.facts.mark = None;
                self.facts.connmark = None;
            }
            // Zones part connections from each other, never a packet from its rules.
            Action::Zone(_) => self.facts.is_zoned = true,
            Action::Unknown(_) => return Err((Verdict::Unknown, Some(at))),
        }
        Ok(None)
    }

    fn target(&mut self, target: &Target, leads_to: Option<usize>, at: At) -> Result<Option<End>, Stop> {
        match target {
            Target::Accept => {
                self.let_go(at);
                return Ok(Some(End::Accepted));
            }
            Target::Drop => return Err((Verdict::Drop, Some(self.decider(at)))),
            Target::Return => {
                self.let_go(at);
                return Ok(Some(End::Returned));
            }
            // Where rules of ours stand alone, somebody else's chain is not there, and what it decides is unknown.
            Target::Jump(_) | Target::JumpForeign(_) => {
                if let End::Accepted = self.call(leads_to, at)? {
                    return Ok(Some(End::Accepted));
                }
            }
            Target::Redirect(ports) => return Ok(Some(self.redirect(*ports, at))),
            Target::Tproxy { port, mark } => {
                self.captured = Some((Verdict::Tproxy(*port), self.decider(at)));
                self.facts.mark = self.facts.mark.map(|before| mark.set_in(before));
                return Ok(Some(End::Accepted));
            }
            Target::SetMark(mark) => self.facts.mark = set_in(self.facts.mark, *mark),
            Target::SetConnmark(mark) => match self.facts.connection() {
                Connection::Here(_) => self.facts.connmark = set_in(self.facts.connmark, *mark),
                Connection::None(_) | Connection::Template => {}
            },
            Target::SaveMark => match self.facts.connection() {
                Connection::Here(_) => self.facts.connmark = self.facts.mark,
                Connection::None(_) | Connection::Template => {}
            },
            Target::RestoreMark => match self.facts.connection() {
                Connection::Here(_) => self.facts.mark = self.facts.connmark,
                Connection::Template => self.facts.mark = None,
                Connection::None(_) => {}
            },
            Target::SetZone(_) => self.facts.is_zoned = true,
            Target::Nflog { .. } | Target::Log { .. } => {}
        }
        Ok(None)
    }

    fn call(&mut self, leads_to: Option<usize>, at: At) -> Result<End, Stop> {
        let unknown = (Verdict::Unknown, Some(at));
        let chain = leads_to.ok_or(unknown)?;
        if self.calls.len() >= MOST_CALLS {
            return Err(unknown);
        }
        self.calls.push(at);
        let end = self.chain(chain)?;
        self.calls.pop();
        Ok(end)
    }

    /// To this machine: in OUTPUT to loopback, else to the address of the interface (`nf_nat_redirect.c`).
    fn redirect(&mut self, ports: PortRange, at: At) -> End {
        if !matches!(self.captured, Some((Verdict::Tproxy(_), _))) {
            self.captured = Some((Verdict::Redirect(ports), self.decider(at)));
        }
        self.facts.destination = match (self.hook, self.view.family()) {
            (Hook::Output, Family::V4) => Some(Ipv4Addr::LOCALHOST.into()),
            (Hook::Output, Family::V6) => Some(Ipv6Addr::LOCALHOST.into()),
            (Hook::Prerouting | Hook::Input | Hook::Forward | Hook::Postrouting, _) => None,
        };
        self.facts.destination_port = port_in(ports, self.facts.destination_port);
        self.facts.destination_local = true;
        self.destination_done = true;
        self.stays = true;
        End::Accepted
    }

    fn translate(&mut self, address: Option<IpAddr>, ports: Option<PortRange>) {
        self.translated = true;
        self.destination_done = true;
        if let Some(address) = address {
            self.facts.destination = Some(address);
            self.stays = self.routing.takes_address(address);
            self.facts.destination_local = self.stays;
        }
        if let Some(ports) = ports {
            self.facts.destination_port = port_in(ports, self.facts.destination_port);
        }
    }

    /// The rule to name for what `at` does: the one that led to its chain, if the chain does nothing else.
    fn decider(&self, at: At) -> At {
        match self.calls.last() {
            Some(caller) if self.view.chains()[at.chain].is_detour && self.view.returns(*caller) => *caller,
            _ => at,
        }
    }

    fn let_go(&mut self, at: At) {
        let nat_has_spoken = matches!(self.passed, Some((true, _)));
        if !self.is_source_nat() && (self.in_nat || !nat_has_spoken) {
            self.passed = Some((self.in_nat, self.decider(at)));
        }
    }

    fn outcome(&self, stopped: Option<Stop>) -> Outcome {
        let (verdict, decided_by) = match (stopped, self.captured) {
            (Some((verdict, at)), _) => (verdict, at),
            (None, Some((verdict, at))) => (verdict, Some(at)),
            (None, None) => (Verdict::Pass, self.passed.map(|(_, at)| at)),
        };
        let translated = self.facts.destination.zip(self.facts.destination_port);
        let translated = translated.filter(|_| self.translated && verdict == Verdict::Pass);
        let translated = translated.map(SocketAddr::from);
        Outcome { verdict, decided_by, translated, stays: self.stays, is_tie: false }
    }
}

/// What setting a mark makes of one that is perhaps not known.
fn set_in(before: Option<u32>, mark: Mark) -> Option<u32> {
    match before {
        Some(before) => Some(mark.set_in(before)),
        // A whole mark leaves nothing of what was not known.
        None => mark.is_whole().then_some(mark.value),
    }
}

/// Whether it makes no difference to the verdict if a rule with this action matches.
fn is_harmless(action: &Action) -> bool {
    action.surely_continues() || matches!(action, Action::Zone(_) | Action::Target(Target::SetZone(_)))
}
