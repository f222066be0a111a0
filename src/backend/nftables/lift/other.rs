//! Expressions of other programs that we never write.

use super::{Lifter, RegisterValue, family_of, verdict_action};
use crate::backend::nftables::expression::Expression;
use crate::sys::header::*;
use crate::sys::message::{self, attribute, ip, name, text};
use rules::{Action, PortRange};

/// Registers after the first, 4 bytes each, up to the longest supported key.
const SECOND_WORD: i32 = NFT_REG32_00 + 1;
const LAST_WORD: i32 = NFT_REG32_00 + 3;

impl Lifter<'_> {
    pub(super) fn other(&mut self, name: &str, data: &[u8]) {
        if let Some((register @ SECOND_WORD..=LAST_WORD, expression)) = Expression::load_elsewhere(name, data)
        {
            return self.load_part(register - NFT_REG32_00, &expression);
        }
        let number = |kind| signed(data, kind);
        let stores = |kind| number(kind).is_some();
        match name {
            "meta" if stores(NFTA_META_SREG) => self.actions.push(Action::Unknown("meta set".to_owned())),
            "ct" if stores(NFTA_CT_SREG) => match number(NFTA_CT_KEY) {
                Some(NFT_CT_MARK) => self.actions.push(Action::UnknownMark("ct mark set".to_owned())),
                Some(NFT_CT_ZONE) => self.actions.push(Action::UnknownZone("ct zone set".to_owned())),
                _ => self.words.push("ct set".to_owned()),
            },
            "payload" if stores(NFTA_PAYLOAD_SREG) => {
                let place =
                    (number(NFTA_PAYLOAD_BASE), number(NFTA_PAYLOAD_OFFSET), number(NFTA_PAYLOAD_LEN));
                match place {
                    // The type of service and the bits before it, which no rule of ours tests.
                    (Some(NFT_PAYLOAD_NETWORK_HEADER), Some(0), Some(..=2)) => {
                        self.words.push("payload set".to_owned());
                    }
                    _ => self.actions.push(Action::Unknown("payload set".to_owned())),
                }
            }
            // A TCP option, such as the segment size.
            "exthdr" if !stores(NFTA_EXTHDR_DREG) && self.asks_tcp() => {
                self.words.push("option set".to_owned());
            }
            "exthdr" if !stores(NFTA_EXTHDR_DREG) => self.put_unknown(format!("({name})")),
            "fib" => {
                let query = (number(NFTA_FIB_DREG), number(NFTA_FIB_RESULT), number(NFTA_FIB_FLAGS));
                self.lose(name);
                if query == (Some(NFT_REG_1), Some(NFT_FIB_RESULT_ADDRTYPE), Some(NFTA_FIB_F_DADDR)) {
                    self.content = RegisterValue::DestinationType;
                }
            }
            "nat" => {
                let family = message::number(data, NFTA_NAT_FAMILY);
                match number(NFTA_NAT_TYPE) {
                    Some(NFT_NAT_DNAT) => {
                        self.ask_family_of_nat(family);
                        self.actions.push(self.destination(data));
                    }
                    _ => self.source(family),
                }
            }
            "masq" => self.actions.push(Action::Source(name.to_owned())),
            "redir" if data.is_empty() => self.actions.push(Action::RedirectSamePort),
            "reject" => self.actions.push(Action::Reject),
            "notrack" => self.actions.push(Action::Notrack),
            "log" | "last" | "counter" => self.words.push(name.to_owned()),
            "meta" | "ct" | "payload" | "exthdr" | "rt" | "socket" | "osf" | "numgen" | "hash" | "tunnel"
            | "xfrm" | "bitwise" | "byteorder" => self.lose(name),
            "cmp" | "range" => self.unknown_condition(),
            "lookup" => self.look_up_answer(data),
            "limit" | "quota" | "connlimit" | "dynset" => self.put_unknown(format!("({name})")),
            "objref" => match number(NFTA_OBJREF_IMM_TYPE) {
                Some(NFT_OBJECT_COUNTER | NFT_OBJECT_CT_HELPER | NFT_OBJECT_CT_TIMEOUT) => {
                    self.words.push(name.to_owned());
                }
                Some(NFT_OBJECT_QUOTA | NFT_OBJECT_LIMIT | NFT_OBJECT_CONNLIMIT) => {
                    self.put_unknown(format!("({name})"));
                }
                _ => self.actions.push(Action::Unknown(name.to_owned())),
            },
            "match" => match attribute(data, NFTA_MATCH_NAME).map(text) {
                Some("comment") => {
                    self.comment = attribute(data, NFTA_MATCH_INFO).map(|comment| text(comment).to_owned());
                }
                module => self.put_unknown(format!("(match {})", module.unwrap_or_default())),
            },
            "target" => {
                let module = attribute(data, NFTA_TARGET_NAME).map(text).unwrap_or_default();
                self.actions.push(Action::Unknown(format!("target {module}")));
            }
            _ => self.actions.push(Action::Unknown(name.to_owned())),
        }
    }

    /// Decodes a part of a longer key, loaded after its first word.
    fn load_part(&mut self, word: i32, expression: &Expression) {
        let (first, before) = (self.content.clone(), std::mem::take(&mut self.further_registers));
        self.step(expression);
        let part = std::mem::replace(&mut self.content, first);
        self.further_registers = before;
        self.further_registers.insert(word, part);
        self.second = None;
    }

    /// In a table of both families, NAT applies only to packets of its family (`nft_nat_inet_eval`).
    fn ask_family_of_nat(&mut self, number: Option<u32>) {
        let number = number.filter(|_| self.context.family.is_none());
        if let Some(family) = number.and_then(family_of) {
            self.ask_family(false, family);
        }
    }

    pub(super) fn source(&mut self, family: Option<u32>) {
        self.ask_family_of_nat(family);
        self.actions.push(Action::Source("nat".to_owned()));
    }

    fn lose(&mut self, name: &str) {
        self.content = RegisterValue::Other(name.to_owned());
        self.second = None;
        self.further_registers.clear();
    }

    /// A map's value replaces the register, or is the verdict. A key without a value ends the rule.
    fn look_up_answer(&mut self, data: &[u8]) {
        let number = |kind| signed(data, kind);
        let name = attribute(data, NFTA_LOOKUP_SET).map(name).unwrap_or_default();
        let is_map =
            number(NFTA_LOOKUP_SREG) == Some(NFT_REG_1) && number(NFTA_LOOKUP_FLAGS).unwrap_or(0) == 0;
        let register = number(NFTA_LOOKUP_DREG).filter(|_| is_map);
        match register {
            Some(_) => self.look_up(&name, false),
            None => self.unknown_condition(),
        }
        if register == Some(NFT_REG_VERDICT) {
            let map = self.context.table.sets.iter().find(|set| set.name == name);
            let action = match map.map(|map| map.verdicts.as_slice()) {
                Some([verdict]) => verdict_action(verdict),
                _ => Action::Unknown("a map decides".to_owned()),
            };
            self.actions.push(action);
        }
        self.lose("map");
    }

    /// Destination of `dnat`: an address, a range of ports, or both.
    fn destination(&self, data: &[u8]) -> Action {
        let register = |kind| signed(data, kind);
        let (address, last_address) = (register(NFTA_NAT_REG_ADDR_MIN), register(NFTA_NAT_REG_ADDR_MAX));
        let (port, last_port) = (register(NFTA_NAT_REG_PROTO_MIN), register(NFTA_NAT_REG_PROTO_MAX));
        let unknown = || Action::Unknown("dnat".to_owned());
        let (Some(NFT_REG_1), RegisterValue::Value(bytes)) = (address, &self.content) else {
            return unknown();
        };
        let ports = match port {
            None => Some(None),
            Some(NFT_REG_2) => self.second_port().map(|port| Some(PortRange::from(port))),
            Some(_) => None,
        };
        let is_one = last_address.is_none_or(|last| last == NFT_REG_1)
            && last_port.is_none_or(|last| last == NFT_REG_2);
        match (ip(bytes), ports) {
            (Some(address), Some(ports)) if is_one => Action::Destination { address: Some(address), ports },
            _ => unknown(),
        }
    }
}

fn signed(data: &[u8], kind: u16) -> Option<i32> {
    message::number(data, kind).map(u32::cast_signed)
}
