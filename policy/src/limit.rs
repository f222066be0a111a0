//! What the rules of a mesh do, or leave undone, though people expect otherwise, and no setting changes it.
//!
//! A mesh names its limits beside its reasons, as data ([`crate::reason::Reasons::limits`]). `lint` tells those that packets
//! can run into, `explain` those that its packet does. Neither knows a mesh.

use crate::Reason;
use crate::lint::Code;
use rules::simulate::Packet;

/// A limit of a mesh's rules.
pub(crate) struct Limit {
    /// Which kind of finding it is.
    pub(crate) code: Code,
    /// The rules that have it, by why they are there.
    pub(crate) reason: Reason,
    /// Whether a packet that has met such a rule runs into it. The second value says whether the packet fulfils all that the
    /// rule asks.
    pub(crate) concerns: fn(&Packet, bool) -> bool,
    /// What is so, in a sentence without its stop. `{}` stands for what the rule is about.
    pub(crate) text: &'static str,
    /// What helps, in the same way.
    pub(crate) remedy: &'static str,
}

impl Limit {
    /// Text and remedy about these items.
    pub(crate) fn told(&self, about: &str) -> (String, String) {
        (self.text.replace("{}", about), self.remedy.replace("{}", about))
    }
}
