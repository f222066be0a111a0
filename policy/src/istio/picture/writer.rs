//! Collects the arrows of a configuration, in the order in which its rules decide.

use crate::Setting;
use crate::istio::{CaptureConfig, Interception, Reason};
use crate::picture::{Fate, Flow, Is, Label, Panel, Part, option};
use crate::sources::Dialect;
use rules::Cidr;
use std::net::Ipv6Addr;

/// Collects arrows.
pub(super) struct Writer<'a> {
    pub(super) config: &'a CaptureConfig,
    dialect: &'a Dialect,
    part: Part,
    flows: Vec<Flow>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(config: &'a CaptureConfig, dialect: &'a Dialect, part: Part) -> Self {
        Self { config, dialect, part, flows: Vec::new() }
    }

    pub(super) fn finish(self) -> Panel {
        Panel { part: self.part, flows: self.flows }
    }

    pub(super) fn is_tproxy(&self) -> bool {
        matches!(self.config.interception, Interception::Tproxy { .. })
    }

    /// Those of the networks that are of a family that is captured; of the others there are no rules.
    pub(super) fn of_families(&self, networks: &[Cidr]) -> Vec<Cidr> {
        let is_captured = |network: &&Cidr| self.config.families().any(|family| family == network.family());
        networks.iter().filter(is_captured).copied().collect()
    }

    /// Adds an arrow of packets that nobody captures.
    pub(super) fn pass(
        &mut self,
        reason: Reason,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        self.put(Fate::Passing, Some(reason), label, needs)
    }

    /// Adds an arrow to the proxy's listener for what leaves the pod.
    pub(super) fn capture_outbound(
        &mut self,
        reason: Reason,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        self.put(Fate::Captured(self.config.outbound_listener), Some(reason), label, needs)
    }

    /// Adds an arrow to the proxy's listener for what arrives.
    pub(super) fn capture_inbound(
        &mut self,
        reason: Reason,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        let ports = match self.config.interception {
            // One socket gets them all.
            Interception::Tproxy { .. } => self.config.inbound_listener.first().into(),
            Interception::Redirect | Interception::None => self.config.inbound_listener,
        };
        self.put(Fate::Captured(ports), Some(reason), label, needs)
    }

    /// Whether the packet goes to what counts as loopback.
    pub(super) fn loopback(&self) -> Is {
        Is::To(vec![self.config.loopback_v4, Cidr::host(Ipv6Addr::LOCALHOST.into())])
    }

    /// Adds an arrow to what counts as loopback. It tells nothing new where that is 127.0.0.1 or all of 127.0.0.0/8.
    pub(super) fn pass_loopback(&mut self) {
        let network = self.config.loopback_v4;
        let label = Label::networks("what counts as loopback: ", &[network]);
        let needs = [self.loopback()];
        self.pass(Reason::Loopback, label, needs).shown &= !network.address().is_loopback();
    }

    pub(super) fn put(
        &mut self,
        fate: Fate,
        reason: Option<Reason>,
        label: Label,
        needs: impl IntoIterator<Item = Is>,
    ) -> &mut Flow {
        let (from, to) = self.part.ends();
        let option = reason.and_then(|reason| self.option(reason.settings()));
        let needs = needs.into_iter().collect();
        let shown = self.part != Part::Within;
        self.flows.push(Flow { needs, from, to, fate, label, option, shown });
        self.flows.last_mut().expect("just added")
    }

    /// What becomes of everything else.
    pub(super) fn rest(&mut self, label: &str, setting: Option<Setting>) {
        let option = setting.and_then(|setting| self.option(&[setting]));
        self.put(Fate::Passing, None, Label::plain(label), []).option = option;
    }

    /// The settings as their author writes them: by the letter, where there is one.
    pub(super) fn option(&self, settings: &[Setting]) -> Option<String> {
        let names: Vec<String> = settings.iter().map(|setting| option(*setting, self.dialect)).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }
}
