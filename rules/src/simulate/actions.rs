//! What rules do to a packet that fulfils them.

use super::facts::{Connection, Owner, port_in, set_in};
use super::trace::{At, Observer, Verdict};
use super::walk::{End, Stop, Walker};
use crate::{Action, Family, Hook, Port, PortRange, Target};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Depth of calls. The kernel's own limit depends on the number of chains.
const MAX_CALLS: usize = 128;

impl<O: Observer> Walker<'_, O> {
    /// Does what a rule says; `None` if the next rule follows.
    pub(super) fn act(
        &mut self,
        action: &Action,
        leads_to: Option<usize>,
        at: At,
    ) -> Result<Option<End>, Stop> {
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
            Action::Destination { ports: Some(ports), .. }
                if self.hook == Hook::Output && action.redirects_to().is_some() =>
            {
                return Ok(Some(self.redirect(*ports, at)));
            }
            Action::Destination { address, ports } => {
                self.translate(*address, *ports, at);
                return Ok(Some(End::Accepted));
            }
            Action::Source(_) => {
                (self.facts.source, self.facts.source_port) = (None, None);
                self.source_done = true;
                return Ok(Some(End::Accepted));
            }
            // A packet with a connection, even only the template of a zone, keeps it (`nft_notrack_eval`).
            Action::Notrack if self.facts.is_tracked || self.facts.is_zoned => {}
            Action::Notrack if self.perhaps_zoned => return Err((Verdict::Unknown, Some(at))),
            Action::Notrack => self.facts.state = None,
            Action::UnknownMark(_) => {
                self.facts.mark = None;
                self.facts.connmark = None;
            }
            // Zones part connections from each other, never a packet from its rules.
            Action::UnknownZone(_) => self.put_in_zone(at),
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
            // In a rule set alone, the foreign chain is absent, and what it decides is unknown.
            Target::Jump(_) | Target::JumpForeign(_) => {
                if let End::Accepted = self.call(leads_to, at)? {
                    return Ok(Some(End::Accepted));
                }
            }
            Target::Redirect(ports) => return Ok(Some(self.redirect(*ports, at))),
            Target::Tproxy { port, mark } => {
                self.captured = Some((Verdict::Tproxy(*port), self.decider(at)));
                // The packet has the listener's socket from now on (`nf_tproxy_assign_sock`).
                self.facts.owner = Owner::Unknown;
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
            Target::SetZone(_) => self.put_in_zone(at),
            Target::Nflog { .. } | Target::Log { .. } => {}
        }
        Ok(None)
    }

    fn put_in_zone(&mut self, at: At) {
        self.facts.put_in_zone(self.view.chains()[at.chain].is_nftables);
    }

    fn call(&mut self, leads_to: Option<usize>, at: At) -> Result<End, Stop> {
        let unknown = (Verdict::Unknown, Some(at));
        let chain = leads_to.ok_or(unknown)?;
        if self.calls.len() >= MAX_CALLS {
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

    fn translate(&mut self, address: Option<IpAddr>, ports: Option<PortRange>, at: At) {
        self.translated = Some(at);
        self.destination_done = true;
        if let Some(address) = address {
            self.facts.destination = Some(address);
            self.facts.destination_local = self.routing.takes_address(address);
            // In OUTPUT it is routed again, also by its mark (`nf_nat_ipv4_local_fn`).
            let mark = self.facts.mark.filter(|_| self.hook == Hook::Output);
            self.stays =
                self.facts.destination_local || mark.is_some_and(|mark| self.routing.takes_mark(mark));
        }
        if let Some(ports) = ports {
            self.facts.destination_port = port_in(ports, self.facts.destination_port);
        }
    }

    /// The rule to name for what `at` does: the one that led to its chain, if the chain does nothing else.
    fn decider(&self, at: At) -> At {
        match self.calls.last() {
            Some(caller) if self.view.chains()[at.chain].has_single_effect && self.view.returns(*caller) => {
                *caller
            }
            _ => at,
        }
    }

    fn let_go(&mut self, at: At) {
        let nat_has_spoken = matches!(self.passed, Some((true, _)));
        if !self.is_source_nat() && (self.in_nat || !nat_has_spoken) {
            self.passed = Some((self.in_nat, self.decider(at)));
        }
    }
}
