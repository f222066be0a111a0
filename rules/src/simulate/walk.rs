//! The walk itself: hooks, tables, chains, and what targets do.
//!
//! Facts of the kernel that shape it, each seen in the differential tests:
//! - A hook's interfaces are fixed when it is entered: `filter` sees the way that the packet had before
//!   `nat` turned it around (`nf_hook_state` in `linux/netfilter.h`).
//! - A packet that a machine sends to itself passes OUTPUT and POSTROUTING, then PREROUTING and INPUT, with
//!   its mark and its connection, but without its socket. `nat` has decided by then.
//! - `nat` sees only packets that start a connection (`nf_nat_inet_fn`).
//! - TPROXY ends only its own table's walk. The socket it assigns gets the packet, even if rewritten by `nat`
//!   afterwards, and a packet that has a socket is never forwarded (`ip_forward`).

use super::facts::{Connection, Facts, Interface, Owner};
use super::packet::{Direction, LOOPBACK, Packet, Routing};
use super::trace::{At, Matched, Observer, Outcome, Step, Verdict};
use super::view::{Order, View, ViewRule};
use crate::nft::{Base, Kind};
use crate::{Action, ConnState, Hook, Policy};
use std::net::{IpAddr, SocketAddr};

/// Rules that one walk may meet. Chains can call each other so often that no walk would end; the kernel
/// itself refuses chains that reach themselves, but text does not.
const MAX_STEPS: usize = 100_000;

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
        translated: None,
        destination_done: false,
        source_done: false,
        from_loopback: packet.source.ip().is_loopback(),
        perhaps_zoned: false,
        tos_changed: false,
        rerouted: false,
        taken_by_mark: false,
    };
    let stopped = match &packet.direction {
        Direction::Outbound { .. } => walker.out(),
        Direction::Inbound { .. } => walker.arrive(),
    };
    walker.outcome(stopped.err())
}

/// The end of a packet before its way is done: what, and by which rule.
pub(super) type Stop = (Verdict, Option<At>);

/// How the walk through a chain ended.
pub(super) enum End {
    /// Back to the calling chain.
    Returned,
    /// The table is done with the packet.
    Accepted,
}

pub(super) struct Walker<'a, O> {
    pub(super) view: &'a View,
    pub(super) order: &'a Order,
    pub(super) routing: &'a Routing,
    pub(super) observer: &'a mut O,
    pub(super) facts: Facts<'a>,
    pub(super) hook: Hook,
    /// Whether the base chain being walked does NAT.
    pub(super) in_nat: bool,
    /// Whether the packet is for this machine.
    pub(super) stays: bool,
    /// The rules whose chains are being walked.
    pub(super) calls: Vec<At>,
    pub(super) steps: usize,
    /// A capture, and the rule that decided it.
    pub(super) captured: Option<(Verdict, At)>,
    /// The rule by which the packet was let go, and whether that was in `nat`, or else in another table.
    pub(super) passed: Option<(bool, At)>,
    /// The rule that changed the destination, where that is not a capture.
    pub(super) translated: Option<At>,
    /// Whether it is settled where the connection goes: a rule of NAT has decided, or none has in the first hook that
    /// asks. Nobody is asked again (`nf_nat_initialized` in `nf_nat_inet_fn`).
    pub(super) destination_done: bool,
    /// The same of where it seems to come from.
    pub(super) source_done: bool,
    /// Whether it was sent from a loopback address.
    pub(super) from_loopback: bool,
    /// Whether a rule has perhaps put it in a zone.
    pub(super) perhaps_zoned: bool,
    /// Whether a rule has written its type of service, or perhaps.
    pub(super) tos_changed: bool,
    /// Whether its route was looked up again, by what rules have changed.
    pub(super) rerouted: bool,
    /// Whether a mark that a rule has set keeps it here, though its destination is elsewhere. Whether a socket gets it then is
    /// not known.
    pub(super) taken_by_mark: bool,
}

impl<O: Observer> Walker<'_, O> {
    /// A packet of this machine.
    fn out(&mut self) -> Result<(), Stop> {
        self.hook(Hook::Output)?;
        if self.stays {
            self.facts.leaves_by = Interface::Named(LOOPBACK);
        } else if self.translated.is_some() || self.rerouted {
            self.facts.leaves_by = Interface::Unknown;
        }
        self.hook(Hook::Postrouting)?;
        if !self.stays {
            return Ok(());
        }
        self.facts.owner = Owner::None;
        self.facts.leaves_by = Interface::None;
        self.facts.arrives_at = Interface::Named(LOOPBACK);
        self.hook(Hook::Prerouting)?;
        self.hook(Hook::Input)?;
        match (self.taken_by_mark, self.captured) {
            (true, None) => Err((Verdict::Unknown, self.passed.map(|(_, at)| at))),
            _ => Ok(()),
        }
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
        // A connection's socket is looked up before INPUT (`ip_rcv_finish_core` in `net/ipv4/ip_input.c`).
        if hook == Hook::Input && !self.starts_connection() {
            self.facts.owner = Owner::Unknown;
        }
        let is_first = !self.facts.is_tracked;
        for &chain in &self.order.chains[hook as usize] {
            let Some(base) = self.view.chains()[chain].base else { continue };
            self.in_nat = base.kind == Kind::Nat;
            if self.in_nat && (!self.starts_connection() || self.is_settled()) {
                continue;
            }
            // NAT needs connections, and the kernel tracks none that no rule requires.
            let tracks = if self.in_nat { self.view.tracks() } else { Some(true) };
            if tracks == Some(false) {
                continue;
            }
            if is_first && base.priority >= self.order.tracked_from {
                self.facts.is_tracked = true;
            }
            let mark = self.facts.mark;
            let end = self.chain(chain);
            match (end, self.view.chains()[chain].policy) {
                // A chain of source NAT that drops nothing leaves the source unknown, and the packet goes on.
                (Err((Verdict::Unknown, _)), _) if self.is_source_nat() && !self.view.may_drop(chain) => {
                    self.forget_source();
                }
                (Err((_, at)), _) if tracks.is_none() => return Err((Verdict::Unknown, at)),
                (Err(stop), _) => return Err(stop),
                (Ok(End::Returned), Policy::Drop) => {
                    let rule = self.view.chains()[chain].rules.len();
                    let verdict = if tracks.is_some() { Verdict::Drop } else { Verdict::Unknown };
                    return Err((verdict, Some(At { chain, rule })));
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

    /// A packet whose mark or type of service changed in `mangle` is routed again (`ip_route_me_harder`). Routes of others
    /// may choose by either, so that by which interface it leaves then is not known.
    fn route_again(&mut self, base: Base, before: Option<u32>) {
        if base.kind != Kind::Route {
            return;
        }
        let changed = self.facts.mark != before || before.is_none();
        self.rerouted |= changed || self.tos_changed;
        if changed && let Some(mark) = self.facts.mark {
            let is_taken = self.routing.takes_mark(mark);
            // An established connection has a socket here already.
            let is_established = self.facts.state == Some(ConnState::Established);
            self.taken_by_mark |= is_taken && !self.stays && !is_established;
            self.stays = is_taken || self.facts.destination_local;
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

    pub(super) fn is_source_nat(&self) -> bool {
        self.in_nat && matches!(self.hook, Hook::Input | Hook::Postrouting)
    }

    fn forget_source(&mut self) {
        self.calls.clear();
        (self.facts.source, self.facts.source_port) = (None, None);
    }

    pub(super) fn chain(&mut self, chain: usize) -> Result<End, Stop> {
        let view = self.view;
        'rules: for (rule, ViewRule { conditions, first, action, leads_to, .. }) in
            view.chains()[chain].rules.iter().enumerate()
        {
            let at = At { chain, rule };
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err((Verdict::Unknown, Some(at)));
            }
            let matched = self.facts.fulfil(conditions);
            self.observer.rule_met(Step { hook: self.hook, at, matched });
            self.perhaps_zoned |= matches!(matched, Matched::Unknown(_)) && action.sets_zone();
            self.tos_changed |= !matches!(matched, Matched::No(_)) && action.sets_tos();
            match matched {
                Matched::No(_) => continue,
                Matched::Unknown(_) if first.iter().chain([action]).all(Action::leaves_verdict) => continue,
                Matched::Unknown(_) => return Err((Verdict::Unknown, Some(at))),
                Matched::Yes => {}
            }
            for action in first {
                // A rule of nf_tables ends where it reads the mark of a missing connection (`nft_ct_get_eval`).
                let reads_connmark = matches!(action, Action::Target(target) if target.reads_connmark());
                if reads_connmark && matches!(self.facts.connection(), Connection::None(_)) {
                    continue 'rules;
                }
                self.act(action, None, at)?;
            }
            if let Some(end) = self.act(action, *leads_to, at)? {
                return Ok(end);
            }
        }
        Ok(End::Returned)
    }

    /// Whether a loopback address is left where no router takes it: as the source of a packet that leaves, or as the
    /// destination of one that came in (`ip_route_input_slow` in `net/ipv4/route.c`).
    fn is_martian(&self) -> bool {
        let is_loopback = |address: Option<IpAddr>| address.is_some_and(|address| address.is_loopback());
        let came_in = self.hook == Hook::Input && self.facts.arrives_at != Interface::Named(LOOPBACK);
        self.translated.is_some()
            && (!self.stays && self.from_loopback || came_in && is_loopback(self.facts.destination))
    }

    fn outcome(&self, stopped: Option<Stop>) -> Outcome {
        let (verdict, decided_by) = match (stopped, self.captured) {
            (Some((verdict, at)), _) => (verdict, at),
            (None, _) if self.is_martian() => (Verdict::Unknown, self.translated),
            (None, Some((verdict, at))) => (verdict, Some(at)),
            (None, None) => (Verdict::Pass, self.passed.map(|(_, at)| at)),
        };
        let translated = self.facts.destination.zip(self.facts.destination_port);
        let translated = translated.filter(|_| self.translated.is_some() && verdict == Verdict::Pass);
        let translated = translated.map(SocketAddr::from);
        Outcome { verdict, decided_by, translated, stays: self.stays, is_tie: false }
    }
}
