//! Rule actions on matching packets.

use super::facts::{Binding, Connection, Loaded, MarkNow, Now, asked_values};
use super::trace::{At, CaptureKind, Verdict};
use super::walk::{NextStep, SetWalk, Stop, Walker};
use crate::field::{Field, Intervals};
use crate::{Action, Family, Hook, Mark, PortRange, Target};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

impl Walker<'_> {
    /// Each action checks its preconditions before it writes.
    pub(super) fn act(
        &self,
        walk: &mut SetWalk,
        action: &Action,
        leads_to: Option<usize>,
        at: At,
    ) -> Result<NextStep, Stop> {
        let caller = walk.caller();
        let now = &mut walk.now;
        match action {
            Action::Target(target) => return self.target(walk, target, leads_to, at),
            Action::Call { .. } | Action::Goto(_) => return self.call(walk, leads_to, at),
            Action::Continue(_) => {}
            Action::Reject => return Err(Stop::Over(Verdict::Drop, Some(self.view.decider(at, caller)))),
            Action::RedirectSamePort => {
                let capture = match now.destination_port {
                    Binding::Sent => CaptureKind::SamePort,
                    Binding::Is(ports) if ports.is_single() => CaptureKind::Redirect(ports),
                    Binding::Is(_) | Binding::Unknown => return Err(Stop::Over(Verdict::Unknown, Some(at))),
                };
                return self.redirect(walk, capture, at);
            }
            Action::Destination { ports: Some(ports), .. }
                if now.hook == Hook::Output && action.redirects_to().is_some() =>
            {
                return self.redirect(walk, CaptureKind::Redirect(*ports), at);
            }
            Action::Destination { address, ports } => return self.translate(walk, *address, *ports, at),
            Action::Source(_) => {
                now.source_sent = false;
                now.source_done = true;
                now.written.source = true;
                return Ok(NextStep::Accepted);
            }
            // A packet keeps a connection it already has, even a zone's template (`nft_notrack_eval`).
            Action::Notrack => {
                now.read.connection = true;
                match now.is_tracked {
                    Some(true) => {}
                    _ if now.is_zoned => {}
                    Some(false) if !now.perhaps_zoned => {
                        now.state = None;
                        now.written.connection = true;
                    }
                    Some(false) | None => return Err(Stop::Over(Verdict::Unknown, Some(at))),
                }
            }
            Action::UnknownMark(_) => now.forget_marks(),
            // Zones separate connections; packets still meet the same rules.
            Action::UnknownZone(_) => self.put_in_zone(walk, at),
            Action::Unknown(_) => return Err(Stop::Over(Verdict::Unknown, Some(at))),
        }
        Ok(NextStep::Next)
    }

    fn target(
        &self,
        walk: &mut SetWalk,
        target: &Target,
        leads_to: Option<usize>,
        at: At,
    ) -> Result<NextStep, Stop> {
        let decider = self.view.decider(at, walk.caller());
        let now = &mut walk.now;
        match target {
            Target::Accept | Target::Return => {
                let nat_has_spoken = matches!(now.passed, Some((true, _)));
                if !now.is_source_nat() && (now.in_nat || !nat_has_spoken) {
                    now.passed = Some((now.in_nat, decider));
                }
                let accepts = *target == Target::Accept;
                return Ok(if accepts { NextStep::Accepted } else { NextStep::Returned });
            }
            Target::Drop => return Err(Stop::Over(Verdict::Drop, Some(decider))),
            // Our rule set lacks the foreign chain, so that chain's decision is unknown.
            Target::Jump(_) | Target::JumpForeign(_) => return self.call(walk, leads_to, at),
            Target::Redirect(ports) => return self.redirect(walk, CaptureKind::Redirect(*ports), at),
            Target::Tproxy { port, mark } => {
                now.captured = Some((CaptureKind::Tproxy(*port), decider));
                // The packet has the listener's socket from now on (`nf_tproxy_assign_sock`).
                now.owner = Loaded::Unknown;
                now.written.owner = true;
                now.set_mark(*mark);
                return Ok(NextStep::Accepted);
            }
            Target::SetMark(mark) => now.set_mark(*mark),
            Target::SetConnmark(mark) => {
                now.read.connection = true;
                if let Connection::Here(_) = now.connection() {
                    now.connmark = set_in(now.connmark, *mark);
                    now.written.connmark |= mark.mask | mark.value;
                    now.read.connmark |= toggled(*mark);
                }
            }
            Target::SaveMark => {
                now.read.connection = true;
                if let Connection::Here(_) = now.connection() {
                    now.read.mark = u32::MAX;
                    now.connmark = now.mark;
                    now.written.connmark = u32::MAX;
                }
            }
            Target::RestoreMark => {
                now.read.connection = true;
                now.read.connmark = u32::MAX;
                match now.connection() {
                    Connection::Here(_) => now.mark = now.connmark,
                    Connection::Template => now.mark = None,
                    Connection::None(_) => return Ok(NextStep::Next),
                }
                now.written.mark = u32::MAX;
            }
            Target::SetZone(_) => self.put_in_zone(walk, at),
            Target::Nflog { .. } | Target::Log { .. } => {}
        }
        Ok(NextStep::Next)
    }

    /// Attaches a zone's connection template to packets. nf_tables does so even for untracked packets, which are then tracked
    /// (`nft_ct_set_zone_eval`); iptables does not (`xt_ct_target`).
    fn put_in_zone(&self, walk: &mut SetWalk, at: At) {
        let now = &mut walk.now;
        let before = (now.state, now.is_zoned);
        if self.view.chains()[at.chain].is_nftables {
            now.state = Some(walk.set.state);
        }
        now.is_zoned |= now.state.is_some();
        now.read.connection = true;
        now.written.connection |= before != (now.state, now.is_zoned);
    }

    fn call(&self, walk: &SetWalk, leads_to: Option<usize>, at: At) -> Result<NextStep, Stop> {
        /// Maximum call depth. The kernel's own limit depends on the number of chains.
        const MAX_CALLS: usize = 128;
        match leads_to.filter(|_| walk.rules.len() <= MAX_CALLS) {
            Some(chain) => Ok(NextStep::Call(chain)),
            None => Err(Stop::Over(Verdict::Unknown, Some(at))),
        }
    }

    /// Redirects to this machine: in OUTPUT to loopback, elsewhere to the interface's address (`nf_nat_redirect.c`).
    fn redirect(&self, walk: &mut SetWalk, capture: CaptureKind, at: At) -> Result<NextStep, Stop> {
        let port = match capture {
            CaptureKind::Redirect(ports) => self.port_in(walk, ports)?,
            CaptureKind::SamePort | CaptureKind::Tproxy(_) => walk.now.destination_port,
        };
        let decider = self.view.decider(at, walk.caller());
        let now = &mut walk.now;
        if !matches!(now.captured, Some((CaptureKind::Tproxy(_), _))) {
            now.captured = Some((capture, decider));
        }
        now.destination = match (now.hook, self.view.family()) {
            (Hook::Output, Family::V4) => Binding::Is(Ipv4Addr::LOCALHOST.into()),
            (Hook::Output, Family::V6) => Binding::Is(Ipv6Addr::LOCALHOST.into()),
            (Hook::Prerouting | Hook::Input | Hook::Forward | Hook::Postrouting, _) => Binding::Unknown,
        };
        now.destination_port = port;
        now.destination_local = true;
        now.destination_done = true;
        now.stays = true;
        now.perhaps_taken = false;
        now.written.destination = true;
        Ok(NextStep::Accepted)
    }

    fn translate(
        &self,
        walk: &mut SetWalk,
        address: Option<IpAddr>,
        ports: Option<PortRange>,
        at: At,
    ) -> Result<NextStep, Stop> {
        let port = match ports {
            Some(ports) => self.port_in(walk, ports)?,
            None => walk.now.destination_port,
        };
        let local = address.map(|address| self.routing.takes_address(address));
        // In OUTPUT, packets are routed again, also by mark (`nf_nat_ipv4_local_fn`).
        let stays = match local {
            Some(false) if walk.now.hook == Hook::Output => match self.takes_mark(walk)? {
                Some(stays) => Some(stays),
                None => return Err(Stop::Over(Verdict::Unknown, Some(at))),
            },
            local => local,
        };
        let now = &mut walk.now;
        now.translated = Some(at);
        now.destination_done = true;
        now.destination = address.map_or(now.destination, Binding::Is);
        now.stays = stays.unwrap_or(now.stays);
        now.taken_by_mark |= now.destination_local && local == Some(false) && now.stays;
        now.destination_local = local.unwrap_or(now.destination_local);
        now.perhaps_taken &= stays.is_none();
        now.destination_port = port;
        now.written.destination = true;
        Ok(NextStep::Accepted)
    }

    fn port_in(&self, walk: &SetWalk, ports: PortRange) -> Result<Binding<PortRange>, Stop> {
        if ports.is_single() {
            return Ok(Binding::Is(ports));
        }
        let range = Intervals::from(ports.interval());
        match walk.now.destination_port {
            Binding::Sent
                if self.decides(asked_values(&walk.set, Field::DestinationPort, &range, true))?
                    == Some(true) =>
            {
                Ok(Binding::Sent)
            }
            Binding::Is(before) if Intervals::from(before.interval()).within(&range) => {
                Ok(Binding::Is(before))
            }
            Binding::Sent | Binding::Is(_) | Binding::Unknown => Ok(Binding::Is(ports)),
        }
    }
}

impl Now {
    pub(super) fn forget_marks(&mut self) {
        (self.mark, self.connmark) = (None, None);
        (self.written.mark, self.written.connmark) = (u32::MAX, u32::MAX);
    }

    fn set_mark(&mut self, mark: Mark) {
        self.mark = set_in(self.mark, mark);
        self.written.mark |= mark.mask | mark.value;
        self.read.mark |= toggled(mark);
    }
}

fn toggled(mark: Mark) -> u32 {
    mark.value & !mark.mask
}

fn set_in(before: Option<MarkNow>, mark: Mark) -> Option<MarkNow> {
    let nothing = MarkNow { of_connection: false, keep: 0, xor: 0 };
    before.or(mark.is_whole().then_some(nothing)).map(|before| before.set(mark))
}
