//! Known limits of a mesh's rules, which no setting changes, and cautions about settings, for `lint` and `explain`.

use crate::facts::{ListItem, Proxy, Selector};
use crate::{RuleReason, Setting, sources::Raw};
use rules::{finding::Code, simulate::Packet};

/// Caution about a configuration; with [`Code::NoEffect`], it applies only if the setting is given.
pub struct Caution {
    pub code: Code,
    /// False for a note.
    pub is_warning: bool,
    pub setting: Setting,
    pub applies: fn(&CautionContext<'_>) -> bool,
    pub text: &'static str,
    pub remedy: &'static str,
}

pub struct CautionContext<'a> {
    pub raw: &'a Raw,
    pub proxy: &'a Proxy,
    pub lists: &'a [ListItem],
    pub captures_inbound: bool,
    pub drops_invalid: bool,
}

impl Caution {
    pub(crate) const fn unused(
        setting: Setting,
        applies: fn(&CautionContext<'_>) -> bool,
        text: &'static str,
        remedy: &'static str,
    ) -> Self {
        Self { code: Code::NoEffect, is_warning: true, setting, applies, text, remedy }
    }

    /// Caution about INVALID packets: one that bypasses the proxy makes the pod's kernel reset the connection.
    pub(crate) const fn of_invalid_packets(setting: Setting, remedy: &'static str) -> Self {
        Self {
            code: Code::InvalidPackets,
            is_warning: false,
            setting,
            applies: |facts| facts.captures_inbound && !facts.drops_invalid,
            text: "is off: one packet outside its connection's window resets a captured connection",
            remedy,
        }
    }
}

/// `excluded!(EXCLUSIONS, beside LIST, "flag")`: caution about excluded ports, which matter only if all ports are captured.
macro_rules! excluded {
    ($exclusions:path, beside $list:path, $flag:literal) => {
        $crate::limit::Caution::unused(
            $exclusions,
            |facts| facts.has($list),
            concat!("it excludes ports, but only the ports of {--", $flag, "} are captured"),
            "drop the option",
        )
    };
}

pub(crate) use excluded;

impl CautionContext<'_> {
    pub fn is(&self, setting: Setting, value: &str) -> bool {
        self.raw.get(setting).is_some_and(|given| given.value.trim().eq_ignore_ascii_case(value))
    }

    pub fn has(&self, setting: Setting) -> bool {
        self.raw.stated(setting).is_some()
    }

    pub fn is_transparent(&self) -> bool {
        self.proxy.listeners.transparent.is_some()
    }

    pub fn has_machines(&self) -> bool {
        self.lists.iter().any(|listed| matches!(listed.selector, Selector::VmInterface(_)))
    }

    pub fn joins_ports(&self) -> bool {
        let captured = self.lists.iter().filter(|listed| listed.captured);
        let mut ports = captured.filter(|listed| matches!(listed.selector, Selector::InboundPort(_)));
        let is_single =
            |one: &ListItem| matches!(one.selector, Selector::InboundPort(ports) if ports.is_single());
        let is_one = ports.next().is_some_and(is_single) && ports.next().is_none();
        self.captures_inbound
            && !is_one
            && self.proxy.listeners.inbound.is_some_and(|ports| ports.is_single())
    }
}

pub struct Limit {
    pub code: Code,
    pub reason: RuleReason,
    /// True if a packet that met the rule is affected; the second argument is true if the packet matches all conditions.
    pub concerns: fn(&Packet, bool) -> bool,
    /// A sentence without a full stop. `{}` is replaced with the rule's items.
    pub text: &'static str,
    pub remedy: &'static str,
}

impl Limit {
    pub fn about_items(&self, about: &str) -> (String, String) {
        (self.text.replace("{}", about), self.remedy.replace("{}", about))
    }
}
