//! Expressions that we never write and others do.

use super::{Held, Raiser};
use crate::sys::{header::*, message::attribute};
use rules::nft::Field;
use rules::{Action, PortRange};
use std::net::IpAddr;

impl Raiser<'_> {
    /// An expression that we never write.
    pub(super) fn other(&mut self, name: &str, data: &[u8]) {
        let number = |kind| attribute(data, kind)?.try_into().ok().map(u32::from_be_bytes);
        let held = || Held::Other(name.to_owned());
        match name {
            "meta" => match (number(NFTA_META_KEY), number(NFTA_META_DREG), number(NFTA_META_SREG)) {
                (Some(NFT_META_IIF), Some(NFT_REG_1), _) => self.held = Held::Index(Field::InInterface),
                (Some(NFT_META_OIF), Some(NFT_REG_1), _) => self.held = Held::Index(Field::OutInterface),
                (Some(NFT_META_PROTOCOL), Some(NFT_REG_1), _) => self.held = Held::EtherType,
                (Some(NFT_META_MARK), None, Some(_)) => self.act(Action::Marks("meta mark set".to_owned())),
                // A priority, the type of a packet, whether it is traced: no rule that we follow asks for these.
                (_, None, Some(_)) => self.words.push("meta set".to_owned()),
                _ => self.held = held(),
            },
            "ct" => match (number(NFTA_CT_KEY), attribute(data, NFTA_CT_SREG).is_some()) {
                (Some(NFT_CT_MARK), true) => self.act(Action::Marks("ct mark set".to_owned())),
                (Some(NFT_CT_ZONE), true) => self.act(Action::Zone("ct zone set".to_owned())),
                (_, true) => self.words.push("ct set".to_owned()),
                (_, false) => self.held = held(),
            },
            "fib" => {
                let asks = (number(NFTA_FIB_DREG), number(NFTA_FIB_RESULT), number(NFTA_FIB_FLAGS));
                self.held =
                    match asks == (Some(NFT_REG_1), Some(NFT_FIB_RESULT_ADDRTYPE), Some(NFTA_FIB_F_DADDR)) {
                        true => Held::DestinationType,
                        false => held(),
                    };
            }
            "nat" if number(NFTA_NAT_TYPE) == Some(NFT_NAT_DNAT) => {
                let action = self.destination(data);
                self.act(action);
            }
            "nat" | "masq" => self.act(Action::Source(name.to_owned())),
            "redir" if data.is_empty() => self.act(Action::RedirectSamePort),
            "reject" => self.act(Action::Reject),
            "notrack" => self.act(Action::Notrack),
            "log" | "last" | "counter" => self.words.push(name.to_owned()),
            // They load something.
            "payload" | "exthdr" | "rt" | "socket" | "osf" | "numgen" | "hash" | "tunnel" | "xfrm" => {
                self.held = held();
            }
            "bitwise" | "byteorder" => self.held = held(),
            "cmp" | "range" | "lookup" => {
                self.strange_condition();
                // A map's answer takes the place of what was held, or decides.
                self.held = held();
                if name == "lookup" {
                    self.act(Action::Unknown("a map decides".to_owned()));
                }
            }
            "limit" | "quota" | "connlimit" | "dynset" | "objref" | "match" => {
                self.strange(format!("({name})"));
            }
            _ => self.act(Action::Unknown(name.to_owned())),
        }
    }

    /// Where `dnat` leads: to one address, one range of ports, or both.
    fn destination(&self, data: &[u8]) -> Action {
        let register = |kind| attribute(data, kind)?.try_into().ok().map(u32::from_be_bytes);
        let (address, last_address) = (register(NFTA_NAT_REG_ADDR_MIN), register(NFTA_NAT_REG_ADDR_MAX));
        let (port, last_port) = (register(NFTA_NAT_REG_PROTO_MIN), register(NFTA_NAT_REG_PROTO_MAX));
        let unknown = || Action::Unknown("dnat".to_owned());
        let (Some(NFT_REG_1), Held::Value(bytes)) = (address, &self.held) else { return unknown() };
        let address = match bytes.as_slice() {
            [a, b, c, d] => IpAddr::from([*a, *b, *c, *d]),
            bytes => match <[u8; 16]>::try_from(bytes) {
                Ok(bytes) => IpAddr::from(bytes),
                Err(_) => return unknown(),
            },
        };
        let ports = match port {
            None => None,
            Some(NFT_REG_2) => match self.second_port() {
                Some(port) => Some(PortRange::from(port)),
                None => return unknown(),
            },
            Some(_) => return unknown(),
        };
        let is_one = last_address.is_none_or(|last| last == NFT_REG_1)
            && last_port.is_none_or(|last| last == NFT_REG_2);
        if is_one { Action::Destination { address: Some(address), ports } } else { unknown() }
    }
}
