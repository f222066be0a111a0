//! Decodes expressions into conditions and actions, the reverse of [`super::lower`], for our and other programs' rules. Anything
//! else becomes an unknown condition or action.

mod compare;

use super::expression::{Ct, EncodedVerdict, Expression, Header, Meta, Register, WORD};
use super::{bytecode::comment_of, listed::Interfaces, lower};
use crate::backend::nftables::bytecode::{EncodedRule, EncodedTable};
use crate::sys::header::*;
use crate::sys::message::{self, attribute, ip, name, text};
use rules::nft::{self, Field, LiveRule, Test};
use rules::{Action, Family, ListedCondition, Mark, Port, PortRange, Target, Zone, render};
use std::{collections::BTreeMap, mem};

/// Offset of the flags in the TCP header, and the flag of a first segment (RFC 9293).
pub(super) const TCP_FLAGS: u32 = 13;
pub(super) const SYN: u8 = 0x02;

/// Registers after the first, 4 bytes each, up to the longest supported key.
const SECOND_WORD: i32 = NFT_REG32_00 + 1;
const LAST_WORD: i32 = NFT_REG32_00 + 3;

pub(super) struct Context<'a> {
    pub(super) family: Option<Family>,
    pub(super) table: &'a EncodedTable,
    pub(super) interfaces: &'a Interfaces,
}

pub(super) fn rule(rule: &EncodedRule, context: &Context<'_>) -> LiveRule {
    let mut lifter = Lifter::new(context);
    rule.expressions.iter().for_each(|expression| lifter.step(expression));
    lifter.finish(comment_of(&rule.userdata))
}

/// Operands of `NFT_BITWISE_MASK_XOR`, as long as the value.
#[derive(Clone, Debug)]
struct BitwiseOperands {
    mask: Vec<u8>,
    xor: Vec<u8>,
}

#[derive(Clone, Debug)]
enum RegisterValue {
    /// First `length` bytes of a field, after `(value & mask) ^ xor`.
    Field {
        field: Field,
        length: usize,
        bitwise: Option<BitwiseOperands>,
    },
    /// A field in host byte order, converted to network byte order (`NFT_BYTEORDER_HTON`).
    NetworkOrder(Field),
    Value(Vec<u8>),
    /// Type of the destination address (`RTN_*`).
    DestinationType,
    Index(Field),
    EtherType,
    TcpFlags(Option<u8>),
    Other(String),
}

struct Lifter<'a> {
    context: &'a Context<'a>,
    content: RegisterValue,
    second: Option<Vec<u8>>,
    /// Content of the 32-bit registers after the first, by number: parts of a longer key.
    further_registers: BTreeMap<i32, RegisterValue>,
    tests: Vec<Test>,
    conditions: Vec<ListedCondition>,
    words: Vec<String>,
    actions: Vec<Action>,
    tproxy: Option<(Option<Family>, Port)>,
    is_condition_after_action: bool,
    comment: Option<String>,
}

impl<'a> Lifter<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            content: RegisterValue::Other("nothing".to_owned()),
            second: None,
            further_registers: BTreeMap::new(),
            tests: Vec::new(),
            conditions: Vec::new(),
            words: Vec::new(),
            actions: Vec::new(),
            tproxy: None,
            is_condition_after_action: false,
            comment: None,
        }
    }

    fn step(&mut self, expression: &Expression) {
        // The kernel evaluates nothing after a verdict.
        if self.actions.last().is_some_and(|action| !goes_on(action)) {
            return;
        }
        if let Expression::Meta(_) | Expression::Ct(_) | Expression::Payload(..) | Expression::Immediate(..) =
            expression
        {
            self.further_registers.clear();
        }
        match expression {
            Expression::Meta(_) | Expression::Ct(_) | Expression::Payload(..) => self.load(expression),
            Expression::Bitwise(mask, xor) => self.bitwise(mask, xor),
            Expression::Cmp(operator, bytes) => self.compare(*operator, bytes),
            Expression::Range(negated, first, last) => match self.ordered(first.len()) {
                Some(field) => {
                    let number = |bytes: &[u8]| field.data_type().decode(bytes, true);
                    self.require(field, *negated, number(first), number(last));
                }
                None => self.unknown_condition(),
            },
            Expression::ToPacketOrder(number) => {
                self.content = match self.content {
                    // States are bits, which have no order.
                    RegisterValue::Field { field, bitwise: None, length }
                        if length == field.data_type().width()
                            && *number == WORD
                            && length == WORD as usize
                            && field != Field::ConnState =>
                    {
                        RegisterValue::NetworkOrder(field)
                    }
                    _ => RegisterValue::Other("byteorder".to_owned()),
                };
            }
            Expression::Lookup(set, negated) => self.look_up(set, *negated),
            Expression::Immediate(Register::First, bytes) => {
                self.content = RegisterValue::Value(bytes.clone());
            }
            Expression::Immediate(Register::Second, bytes) => self.second = Some(bytes.clone()),
            Expression::SetMeta(Meta::Mark) => {
                let action = self.mark();
                self.actions.push(action);
            }
            // No rule that we follow tests these.
            Expression::SetMeta(Meta::Priority | Meta::Nftrace) => self.words.push("meta set".to_owned()),
            Expression::SetMeta(_) => self.actions.push(Action::Unknown("meta set".to_owned())),
            Expression::SetCt(Ct::State) => self.words.push("ct set".to_owned()),
            Expression::SetCt(Ct::Mark) => {
                let target = match &self.content {
                    RegisterValue::Field { field: Field::Mark(_), bitwise: None, .. } => {
                        Some(Target::SaveMark)
                    }
                    content => {
                        set_by(content, |field| matches!(field, Field::Connmark(_))).map(Target::SetConnmark)
                    }
                };
                let other = || Action::UnknownMark("ct mark set".to_owned());
                self.actions.push(target.map_or_else(other, Action::Target));
            }
            Expression::SetCt(Ct::Zone) => {
                let zone = self.value(2).and_then(|bytes| Zone::new(u16::from_ne_bytes(bytes)));
                let other = || Action::UnknownZone("ct zone set".to_owned());
                self.actions.push(zone.map_or_else(other, |zone| Action::Target(Target::SetZone(zone))));
            }
            Expression::Redir(last) => {
                let last = if *last == Register::First { self.port() } else { self.second_port() };
                let ports = self.port().zip(last);
                let ports = ports.and_then(|(first, last)| PortRange::new(first, last));
                let other = || Action::Unknown("redirect".to_owned());
                self.actions.push(ports.map_or_else(other, |ports| Action::Target(Target::Redirect(ports))));
            }
            Expression::Snat(family) => self.source(Some(*family)),
            Expression::Tproxy(family) => match self.port() {
                Some(port) if self.tproxy.is_none() => {
                    let of = family_of(*family);
                    // For a packet of the other family, the rule ends here (`nft_tproxy_eval`).
                    if let Some(of) = of.filter(|of| self.known_family() != Some(*of)) {
                        self.ask_family(false, of);
                    }
                    self.tproxy = Some((of, port));
                }
                _ => self.actions.push(Action::Unknown("tproxy".to_owned())),
            },
            Expression::Counter => self.words.push("counter".to_owned()),
            Expression::Log(group, prefix) => {
                self.words.push(format!("log prefix \"{prefix}\" group {group}"));
            }
            Expression::KernelLog(level, prefix) => {
                self.words.push(format!("log prefix \"{prefix}\" level {}", level.name()));
            }
            Expression::Verdict(verdict) => self.actions.push(verdict_action(verdict)),
            Expression::Other { name, data } => self.other(name, data),
        }
    }

    /// The only family whose packets get this far in the rule; `None` if unknown.
    fn known_family(&self) -> Option<Family> {
        let tests_family =
            |of: &Family| self.tests.iter().any(|test| test.condition == nft::Condition::family(*of));
        self.context.family.or_else(|| Family::BOTH.into_iter().find(tests_family))
    }

    fn load(&mut self, expression: &Expression) {
        let family = self.known_family();
        let whole =
            |field: Field| RegisterValue::Field { field, length: field.data_type().width(), bitwise: None };
        self.content = match (expression, lower::loaded(expression, family)) {
            (Expression::Payload(_, _, length), Some(field)) => {
                RegisterValue::Field { field, length: *length as usize, bitwise: None }
            }
            (_, Some(field)) => whole(field),
            (Expression::Payload(Header::Transport, TCP_FLAGS, 1), None) => RegisterValue::TcpFlags(None),
            (Expression::Payload(Header::Network, 9, 1), None) if family == Some(Family::V4) => {
                whole(Field::Protocol)
            }
            (Expression::Payload(Header::Network, 6, 1), None) if family == Some(Family::V6) => {
                whole(Field::Protocol)
            }
            (Expression::Meta(Meta::Iif), None) => RegisterValue::Index(Field::InInterface),
            (Expression::Meta(Meta::Oif), None) => RegisterValue::Index(Field::OutInterface),
            (Expression::Meta(Meta::Protocol), None) => RegisterValue::EtherType,
            (expression, None) => RegisterValue::Other(expression.name().to_owned()),
        };
    }

    fn bitwise(&mut self, mask: &[u8], xor: &[u8]) {
        match &mut self.content {
            RegisterValue::Field { length, bitwise: bitwise @ None, .. } if *length == mask.len() => {
                *bitwise = Some(BitwiseOperands { mask: mask.to_vec(), xor: xor.to_vec() });
            }
            RegisterValue::TcpFlags(flags @ None) if xor == [0] => *flags = mask.first().copied(),
            _ => self.content = RegisterValue::Other("bitwise".to_owned()),
        }
    }

    fn value<const LENGTH: usize>(&self, length: usize) -> Option<[u8; LENGTH]> {
        match &self.content {
            RegisterValue::Value(bytes) if bytes.len() == length => bytes.as_slice().try_into().ok(),
            _ => None,
        }
    }

    fn port(&self) -> Option<Port> {
        self.value(2).and_then(|bytes| Port::new(u16::from_be_bytes(bytes)))
    }

    fn second_port(&self) -> Option<Port> {
        let bytes = self.second.as_deref()?.try_into().ok()?;
        Port::new(u16::from_be_bytes(bytes))
    }

    fn mark(&self) -> Action {
        let target = match &self.content {
            RegisterValue::Field { field: Field::Connmark(_), bitwise: None, .. } => {
                Some(Target::RestoreMark)
            }
            content => set_by(content, |field| matches!(field, Field::Mark(_))).map(Target::SetMark),
        };
        target.map_or_else(|| Action::UnknownMark("meta mark set".to_owned()), Action::Target)
    }

    fn finish(mut self, userdata: &str) -> LiveRule {
        let comment = self.comment.take().unwrap_or_else(|| userdata.to_owned());
        if let Some((_, port)) = self.tproxy {
            self.actions = vec![match self.actions.as_slice() {
                [Action::Target(Target::SetMark(mark)), Action::Target(Target::Accept)] => {
                    Action::Target(Target::Tproxy { port, mark: *mark })
                }
                [Action::Target(Target::Accept)] => {
                    Action::Target(Target::Tproxy { port, mark: Mark { value: 0, mask: 0 } })
                }
                _ => Action::Unknown("tproxy".to_owned()),
            }];
        }
        if self.is_condition_after_action {
            self.actions = vec![Action::Unknown("a condition after an action".to_owned())];
        }
        let mut words = render::nft::conditions(&self.tests);
        words.append(&mut self.words);
        let text = |action: &Action| match (action, self.tproxy) {
            (Action::Target(target @ Target::Tproxy { .. }), Some((of, _))) => {
                render::nft::target(target, of)
            }
            _ => render::nft::action_text(action),
        };
        words.extend(self.actions.iter().map(text).filter(|text| !text.is_empty()));
        if !comment.is_empty() {
            words.push(format!("comment \"{comment}\""));
        }
        let action = self.actions.pop().unwrap_or_else(|| Action::Continue(String::new()));
        let (conditions, first) = (self.conditions, self.actions);
        LiveRule { text: words.join(" "), conditions, first, action, comment, hits: None }
    }
}

fn verdict_action(verdict: &EncodedVerdict) -> Action {
    match verdict {
        EncodedVerdict::Accept => Action::Target(Target::Accept),
        EncodedVerdict::Drop => Action::Target(Target::Drop),
        EncodedVerdict::Return => Action::Target(Target::Return),
        EncodedVerdict::Jump(chain) => Action::Call { chain: chain.clone(), returns: true },
        EncodedVerdict::Goto(chain) => Action::Call { chain: chain.clone(), returns: false },
    }
}

fn family_of(number: u32) -> Option<Family> {
    Family::BOTH.into_iter().find(|of| u32::from(nft::family_number(*of)) == number)
}

fn goes_on(action: &Action) -> bool {
    match action {
        Action::Continue(_)
        | Action::Notrack
        | Action::UnknownMark(_)
        | Action::UnknownZone(_)
        | Action::Unknown(_) => true,
        Action::Target(target) => !target.decides() && target.chain().is_none(),
        Action::Goto(_)
        | Action::Call { .. }
        | Action::Reject
        | Action::RedirectSamePort
        | Action::Destination { .. }
        | Action::Source(_) => false,
    }
}

/// The mark set by storing the register: a value, or changed bits of the previous mark.
fn set_by(content: &RegisterValue, is_own: impl Fn(Field) -> bool) -> Option<Mark> {
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_ne_bytes);
    match content {
        RegisterValue::Value(bytes) => word(bytes).map(Mark::whole),
        RegisterValue::Field { field, bitwise: Some(BitwiseOperands { mask, xor }), .. }
            if is_own(*field) =>
        {
            word(mask).zip(word(xor)).map(|(mask, value)| Mark { value, mask: !mask })
        }
        _ => None,
    }
}

/// Other programs' expressions that we never write.
impl Lifter<'_> {
    fn other(&mut self, name: &str, data: &[u8]) {
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
                    // The type of service and the bits before it, which our rules never test.
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
        let (first, before) = (self.content.clone(), mem::take(&mut self.further_registers));
        self.step(expression);
        let part = mem::replace(&mut self.content, first);
        self.further_registers = before;
        self.further_registers.insert(word, part);
        self.second = None;
    }

    /// In a table of both families, NAT applies only to its own family's packets (`nft_nat_inet_eval`).
    fn ask_family_of_nat(&mut self, number: Option<u32>) {
        let number = number.filter(|_| self.context.family.is_none());
        if let Some(family) = number.and_then(family_of) {
            self.ask_family(false, family);
        }
    }

    fn source(&mut self, family: Option<u32>) {
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

    /// Destination of `dnat`: an address, a port range, or both.
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
