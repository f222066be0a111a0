//! The walk itself: hooks, tables, chains, and the effects of targets.
//!
//! A walk is data, and proceeds in steps. A step that depends on a difference among the set's packets changes nothing and returns
//! the condition that splits the set; the walk continues for both parts.
//!
//! Kernel facts behind the walk, each verified by the oracle in `tests/oracle`:
//! - A hook's interfaces are fixed on entry: `filter` sees the interfaces from before `nat` redirected packets (`nf_hook_state`
//!   in `linux/netfilter.h`).
//! - A packet that a machine sends to itself passes OUTPUT and POSTROUTING, then PREROUTING and INPUT, with its mark and
//!   connection, but without its socket. There, `nat` has already decided.
//! - `nat` sees only packets that start a connection (`nf_nat_inet_fn`).
//! - TPROXY ends only its own table's walk. The socket it assigns gets the packet, even if `nat` rewrites it afterwards, and a
//!   packet that has a socket is never forwarded (`ip_forward`).

use super::facts::{Binding, Connection, Loaded, MarkNow, Now, Truth, asked_values, mark_has};
use super::set::{Divider, PacketSet, Routing, Way, loopback, loopback_interface};
use super::ties::Tie;
use super::trace::{At, CaptureKind, Ending, Matched, Step, Verdict};
use super::view::{View, ViewRule};
use crate::{Action, ConnState, Hook, Mark, Policy, Port, PortRange, field::Field, nft::Kind};

/// Rule limit for one walk: unlike the kernel, listings may have chains that reach themselves.
const MAX_STEPS: usize = 100_000;

/// Conntrack's own priority: a chain of this priority may run before or after conntrack.
const NF_IP_PRI_CONNTRACK: i32 = -200;

pub(super) enum Stop {
    /// This condition splits the set; nothing has changed.
    Divided(Divider),
    /// The walk ends early: verdict and deciding rule.
    Over(Verdict, Option<At>),
    Done,
}

pub(super) enum NextStep {
    Next,
    Call(usize),
    Returned,
    Accepted,
}

/// Result of a base chain: packets go on, or a rule or policy decides.
pub(super) type ChainEnd = Result<(), (Verdict, Option<At>)>;

#[derive(Clone)]
pub(super) struct SetWalk {
    pub(super) set: PacketSet,
    pub(super) now: Now,
    is_new: bool,
    pub(super) place: (usize, usize),
    /// True if conntrack had not seen the packet on entry to the hook.
    is_first: bool,
    pub(super) mark_before: Option<MarkNow>,
    pub(super) rules: Vec<At>,
    ended: Option<ChainEnd>,
    pub(super) tie: Option<Box<Tie>>,
    pub(super) is_tie: bool,
    pub(super) steps: usize,
    /// Rules that its packets matched or may have matched; for a single packet, every rule met.
    pub(super) met: Vec<Step>,
}

impl SetWalk {
    pub(super) fn of(set: PacketSet) -> Self {
        Self {
            now: Now::of(&set),
            set,
            is_new: true,
            place: (0, 0),
            is_first: true,
            mark_before: None,
            rules: Vec::new(),
            ended: None,
            tie: None,
            is_tie: false,
            steps: 0,
            met: Vec::new(),
        }
    }

    pub(super) fn caller(&self) -> Option<At> {
        self.rules.iter().nth_back(1).copied()
    }

    fn enter(&mut self, hook: Hook) {
        self.now.hook = hook;
        self.place = (0, 0);
        self.is_first = self.now.is_tracked != Some(true);
        // A connection's socket is looked up before INPUT (`ip_rcv_finish_core` in `net/ipv4/ip_input.c`).
        if hook == Hook::Input && !self.now.starts_connection() {
            self.now.owner = Loaded::Unknown;
        }
    }

    pub(super) fn ending(&self, stopped: Option<(Verdict, Option<At>)>) -> Ending {
        let now = &self.now;
        let (verdict, decided_by, keeps_port) = match (stopped, now.captured) {
            (Some((verdict, at)), _) => (verdict, at, false),
            (None, Some((CaptureKind::Redirect(ports), at))) => (Verdict::Redirect(ports), Some(at), false),
            (None, Some((CaptureKind::Tproxy(port), at))) => (Verdict::Tproxy(port), Some(at), false),
            (None, Some((CaptureKind::SamePort, at))) => (Verdict::Redirect(every_port()), Some(at), true),
            (None, None) => (Verdict::Pass, now.translated.or(now.passed.map(|(_, at)| at)), false),
        };
        let is_translated = now.translated.is_some() && verdict == Verdict::Pass;
        Ending {
            verdict,
            keeps_port,
            decided_by,
            translated: is_translated.then_some((now.destination, now.destination_port)),
            stays: now.stays && verdict != Verdict::Drop,
            is_tie: self.is_tie && verdict == Verdict::Unknown,
        }
    }
}

impl Now {
    pub(super) fn starts_connection(&self) -> bool {
        matches!(self.state, Some(ConnState::New | ConnState::Related))
    }

    pub(super) fn is_source_nat(&self) -> bool {
        self.in_nat && matches!(self.hook, Hook::Input | Hook::Postrouting)
    }

    /// Unknown verdict for packets that may or may not stay here, decided by the rule that passed them.
    fn undecided(&self) -> Stop {
        Stop::Over(Verdict::Unknown, self.passed.map(|(_, at)| at))
    }

    fn is_settled(&self) -> bool {
        match self.hook {
            Hook::Prerouting | Hook::Output | Hook::Forward => self.destination_done,
            Hook::Input | Hook::Postrouting => self.source_done,
        }
    }
}

fn every_port() -> PortRange {
    let last = Port::new(u16::MAX).expect("not 0");
    PortRange::new(Port::new(1).expect("not 0"), last).expect("in order")
}

pub(super) struct Walker<'a> {
    pub(super) view: &'a View,
    pub(super) routing: &'a Routing,
    /// True if the set is one packet, which unknown facts never split.
    pub(super) is_single: bool,
}

impl Walker<'_> {
    pub(super) fn run(&self, walk: &mut SetWalk) -> Result<Ending, Divider> {
        let ending = loop {
            match self.step(walk) {
                Ok(()) => {}
                Err(Stop::Divided(divider)) => return Err(divider),
                Err(Stop::Over(verdict, at)) => break walk.ending(Some((verdict, at))),
                Err(Stop::Done) => break walk.ending(None),
            }
        };
        // Rules that could not be read may decide otherwise.
        Ok(if self.view.gap().is_some() { ending.unknown() } else { ending })
    }

    fn step(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        match (walk.ended, walk.rules.last()) {
            _ if walk.is_new => self.set_out(walk),
            (Some(end), _) => self.leave_chain(walk, end),
            (None, Some(at)) => self.meet(walk, *at),
            (None, None) => self.next_chain(walk),
        }
    }

    pub(super) fn decides(&self, answer: Truth) -> Result<Option<bool>, Stop> {
        answer.or_else(|divider| if self.is_single { Ok(None) } else { Err(Stop::Divided(divider)) })
    }

    pub(super) fn takes_mark(&self, walk: &SetWalk) -> Result<Option<bool>, Stop> {
        for local in &self.routing.local_marks {
            let Some(mark) = walk.now.mark else { return Ok(None) };
            match self.decides(mark_has(&walk.set, mark, *local, true))? {
                Some(false) => {}
                taken => return Ok(taken),
            }
        }
        Ok(Some(false))
    }

    fn set_out(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        if walk.set.way == Way::Outbound {
            // The route was looked up with the socket's mark.
            let taken = self.takes_mark(walk)? == Some(true);
            let lo = asked_values(&walk.set, Field::OutInterface, &loopback_interface(), true);
            let is_local = self.decides(lo)? == Some(true);
            walk.now.destination_local = is_local;
            walk.now.stays = is_local || taken;
            if taken {
                walk.now.leaves_by = Binding::loopback();
            }
        }
        walk.is_new = false;
        walk.enter(walk.now.hook);
        Ok(())
    }

    fn next_chain(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        let groups = &self.view.groups[walk.now.hook as usize];
        let Some(group) = groups.get(walk.place.0) else { return self.leave_hook(walk) };
        let Some(&chain) = group.get(walk.place.1) else {
            if walk.tie.is_some() {
                return self.untie(walk);
            }
            walk.place = (walk.place.0 + 1, 0);
            return Ok(());
        };
        let base = self.view.chains()[chain].base.expect("groups are of base chains");
        if group.len() > 1 {
            walk.tie.get_or_insert_with(|| Box::new(Tie::new(walk.now))).enter(&mut walk.now);
        }
        let now = &mut walk.now;
        now.in_nat = base.kind == Kind::Nat;
        let is_asked = now.starts_connection() && !now.is_settled();
        // NAT needs connections, and the kernel tracks none unless a rule requires tracking.
        if now.in_nat && (!is_asked || self.view.tracks == Some(false)) {
            walk.place.1 += 1;
            if let Some(tie) = &mut walk.tie {
                tie.chain_ended(Ok(()), *now);
            }
            return Ok(());
        }
        if walk.is_first && base.priority >= NF_IP_PRI_CONNTRACK {
            now.is_tracked = (base.priority > NF_IP_PRI_CONNTRACK).then_some(true);
        }
        walk.mark_before = now.mark;
        walk.rules.push(At { chain, rule: 0 });
        Ok(())
    }

    fn meet(&self, walk: &mut SetWalk, at: At) -> Result<(), Stop> {
        let at = self.led(walk, at);
        let Some(rule) = self.view.rule(at) else {
            self.go_back(walk);
            return Ok(());
        };
        let matched = self.matched(walk, rule)?;
        walk.steps += 1;
        if walk.steps > MAX_STEPS {
            walk.ended = Some(Err((Verdict::Unknown, Some(at))));
            return Ok(());
        }
        if self.is_single || !matches!(matched, Matched::No(_)) {
            walk.met.push(Step { hook: walk.now.hook, at, matched });
        }
        let before = walk.now;
        let flow = match matched {
            Matched::No(_) => Ok(NextStep::Next),
            Matched::Unknown(_) => {
                walk.now.perhaps_zoned |= rule.action.sets_zone();
                walk.now.tos_changed |= rule.action.sets_tos();
                let leaves = rule.first.iter().chain([&rule.action]).all(Action::leaves_verdict);
                if leaves { Ok(NextStep::Next) } else { Err(Stop::Over(Verdict::Unknown, Some(at))) }
            }
            Matched::Yes => self.fulfilled(walk, rule, at),
        };
        match flow {
            Ok(NextStep::Next) => self.go_on(walk),
            Ok(NextStep::Call(chain)) => walk.rules.push(At { chain, rule: 0 }),
            Ok(NextStep::Returned) => self.go_back(walk),
            Ok(NextStep::Accepted) => walk.ended = Some(Ok(())),
            Err(Stop::Over(verdict, at)) => walk.ended = Some(Err((verdict, at))),
            Err(stop) => {
                walk.now = before;
                return Err(stop);
            }
        }
        Ok(())
    }

    /// The next rule that the packets may match in a long run. A single packet meets every rule.
    fn led(&self, walk: &mut SetWalk, at: At) -> At {
        if self.is_single {
            return at;
        }
        let mut runs = self.view.chains()[at.chain].runs.iter();
        let Some(run) = runs.find(|run| run.rules.contains(&at.rule)) else { return at };
        let next = run.fields.iter().filter_map(|one| {
            let values = walk.set.values(one.field).filter(|_| walk.now.is_sent(&walk.set, one.field))?;
            Some(one.next(at.rule, run.rules.end, values))
        });
        let next = At { rule: next.fold(at.rule, usize::max), ..at };
        walk.rules.pop();
        walk.rules.push(next);
        next
    }

    fn fulfilled(&self, walk: &mut SetWalk, rule: &ViewRule, at: At) -> Result<NextStep, Stop> {
        walk.now.tos_changed |= rule.action.sets_tos();
        for action in &rule.first {
            // nf_tables rules fail on a missing connection's mark (`nft_ct_get_eval`) or, in some kernels, a template's mark.
            if matches!(action, Action::Target(target) if target.reads_connmark()) {
                match walk.now.connection() {
                    Connection::None(_) => return Ok(NextStep::Next),
                    Connection::Template => return Err(Stop::Over(Verdict::Unknown, Some(at))),
                    Connection::Here(_) => {}
                }
            }
            self.act(walk, action, None, at)?;
        }
        self.act(walk, &rule.action, rule.leads_to, at)
    }

    /// Evaluates a rule's conditions. One known failure decides even if other conditions are unknown.
    fn matched(&self, walk: &mut SetWalk, rule: &ViewRule) -> Result<Matched, Stop> {
        let (mut unsure, mut divided) = (None, None);
        for (index, asked) in rule.asked.iter().enumerate() {
            match walk.now.fulfils(&walk.set, asked) {
                Ok(Some(true)) => {}
                Ok(Some(false)) => return Ok(Matched::No(index)),
                Err(divider) if !self.is_single => divided = divided.or(Some(divider)),
                Err(_) | Ok(None) => unsure = unsure.or(Some(index)),
            }
        }
        match divided {
            Some(divider) if rule.has_effect() => Err(Stop::Divided(divider)),
            _ => Ok(unsure.map_or(Matched::Yes, Matched::Unknown)),
        }
    }

    fn go_on(&self, walk: &mut SetWalk) {
        if let Some(next) = walk.rules.last_mut() {
            next.rule += 1;
        }
    }

    fn go_back(&self, walk: &mut SetWalk) {
        walk.rules.pop();
        while let Some(caller) = walk.rules.last().copied() {
            if self.view.returns(caller) {
                return self.go_on(walk);
            }
            walk.rules.pop();
        }
        let chain = self.base_chain(walk);
        let content = &self.view.chains()[chain];
        walk.ended = Some(match content.policy {
            Policy::Accept => Ok(()),
            Policy::Drop => Err((Verdict::Drop, Some(At { chain, rule: content.rules.len() }))),
        });
    }

    fn base_chain(&self, walk: &SetWalk) -> usize {
        self.view.groups[walk.now.hook as usize][walk.place.0][walk.place.1]
    }

    fn leave_chain(&self, walk: &mut SetWalk, mut end: ChainEnd) -> Result<(), Stop> {
        let chain = self.base_chain(walk);
        // After unknown source NAT that can't drop, packets go on with unknown source and possibly unknown marks.
        if matches!(end, Err((Verdict::Unknown, _))) && walk.now.is_source_nat() && !self.nat_may_drop(walk) {
            walk.now.source_sent = false;
            walk.now.written.source = true;
            if self.view.may_mark(chain) {
                walk.now.forget_marks();
            }
            end = Ok(());
        }
        if walk.now.in_nat && self.view.tracks.is_none() {
            end = end.map_err(|(_, at)| (Verdict::Unknown, at));
        }
        if end.is_ok() && self.view.chains()[chain].is(Kind::Route) {
            self.route_again(walk)?;
        }
        walk.ended = None;
        walk.rules.clear();
        walk.place.1 += 1;
        match (&mut walk.tie, end) {
            (Some(tie), end) => tie.chain_ended(end, walk.now),
            (None, Err((verdict, at))) => return Err(Stop::Over(verdict, at)),
            (None, Ok(())) => {}
        }
        Ok(())
    }

    /// True if this or a later NAT chain may drop packets. Source NAT, once decided, skips later chains.
    fn nat_may_drop(&self, walk: &SetWalk) -> bool {
        let groups = &self.view.groups[walk.now.hook as usize][walk.place.0..];
        let mut chains = groups.iter().flatten();
        chains.any(|chain| self.view.chains()[*chain].is(Kind::Nat) && self.view.may_drop(*chain))
    }

    /// A packet whose mark or type of service changed in `mangle` is routed again (`ip_route_me_harder`). Other programs' routes
    /// may depend on either, so its output interface is then unknown.
    pub(super) fn route_again(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        let has_changed = self.has_changed(walk)?;
        let taken = if has_changed == Some(false) { None } else { self.takes_mark(walk)? };
        let now = &mut walk.now;
        now.rerouted |= has_changed != Some(false) || now.tos_changed;
        if has_changed == Some(false) {
            return Ok(());
        }
        now.perhaps_taken = taken.is_none() && !now.destination_local;
        if let Some(is_taken) = taken {
            // An established connection already has a socket here.
            let is_established = now.state == Some(ConnState::Established);
            now.taken_by_mark |= is_taken && !now.stays && !is_established;
            now.stays = is_taken || now.destination_local;
        }
        Ok(())
    }

    fn has_changed(&self, walk: &SetWalk) -> Result<Option<bool>, Stop> {
        let (Some(one), Some(other)) = (walk.mark_before, walk.now.mark) else { return Ok(None) };
        let constant = |mark: MarkNow| {
            let sent = if mark.of_connection { walk.set.connmark() } else { walk.set.mark() };
            sent.single().map(|sent| sent & mark.keep ^ mark.xor).or(mark.constant())
        };
        if let (Some(one), Some(other)) = (constant(one), constant(other)) {
            return Ok(Some(one != other));
        }
        if one.of_connection != other.of_connection {
            return Ok(None);
        }
        // The marks are equal if the sent mark's bits in `kept` equal `differing`.
        let (kept, differing) = (one.keep ^ other.keep, one.xor ^ other.xor);
        if differing & !kept != 0 {
            return Ok(Some(true));
        }
        let sent = MarkNow::sent(one.of_connection);
        let same = mark_has(&walk.set, sent, Mark { value: differing, mask: kept }, true);
        Ok(self.decides(same)?.map(|is_same| !is_same))
    }

    fn leave_hook(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        let is_outbound = walk.set.way == Way::Outbound;
        let hook = walk.now.hook;
        walk.now.is_tracked = Some(true);
        match hook {
            Hook::Prerouting | Hook::Output | Hook::Forward => walk.now.destination_done = true,
            Hook::Input | Hook::Postrouting => walk.now.source_done = true,
        }
        match hook {
            Hook::Output if walk.now.perhaps_taken => {
                return Err(walk.now.undecided());
            }
            Hook::Output => {
                if walk.now.stays {
                    walk.now.leaves_by = Binding::loopback();
                } else if walk.now.translated.is_some() || walk.now.rerouted {
                    walk.now.leaves_by = Binding::Unknown;
                }
                walk.enter(Hook::Postrouting);
            }
            Hook::Postrouting if is_outbound && walk.now.stays => {
                walk.now.owner = Loaded::Nothing;
                walk.now.leaves_by = Binding::NO_INTERFACE;
                walk.now.arrives_at = Binding::loopback();
                walk.enter(Hook::Prerouting);
            }
            Hook::Prerouting if is_outbound => walk.enter(Hook::Input),
            Hook::Prerouting => {
                let taken = if walk.now.stays { Some(true) } else { self.takes_mark(walk)? };
                walk.now.stays |= taken == Some(true);
                match (taken, walk.now.captured) {
                    (Some(true), _) => walk.enter(Hook::Input),
                    (None, _) => return Err(walk.now.undecided()),
                    (Some(false), Some((CaptureKind::Tproxy(_), at))) => {
                        return Err(Stop::Over(Verdict::Drop, Some(at)));
                    }
                    (Some(false), _) => {
                        walk.now.leaves_by = Binding::Unknown;
                        walk.enter(Hook::Forward);
                    }
                }
            }
            Hook::Forward => {
                walk.now.arrives_at = Binding::NO_INTERFACE;
                walk.enter(Hook::Postrouting);
            }
            Hook::Input | Hook::Postrouting => return self.arrive(walk),
        }
        Ok(())
    }

    fn arrive(&self, walk: &mut SetWalk) -> Result<(), Stop> {
        let now = &walk.now;
        if now.hook == Hook::Input && now.taken_by_mark && now.captured.is_none() {
            return Err(now.undecided());
        }
        if self.is_martian(walk)? {
            return Err(Stop::Over(Verdict::Unknown, walk.now.translated));
        }
        Err(Stop::Done)
    }

    /// True if translation leaves a loopback address that routing refuses (`ip_route_input_slow` in `net/ipv4/route.c`).
    fn is_martian(&self, walk: &SetWalk) -> Result<bool, Stop> {
        let now = &walk.now;
        if now.translated.is_none() {
            return Ok(false);
        }
        let loopback = loopback(walk.set.family);
        let is_sent = |field| self.decides(asked_values(&walk.set, field, &loopback, true));
        let came_in = now.hook == Hook::Input && now.arrives_at != Binding::loopback();
        if !now.stays && is_sent(Field::Source(walk.set.family))? == Some(true) {
            return Ok(true);
        }
        match now.destination {
            Binding::Is(address) => Ok(came_in && address.is_loopback()),
            Binding::Sent if came_in => Ok(is_sent(Field::Destination(walk.set.family))? == Some(true)),
            Binding::Sent | Binding::Unknown => Ok(false),
        }
    }
}
