//! Cautions: valid settings whose effect may surprise their author, for `lint`.

use crate::Setting;
use crate::limit::Caution;
use rules::finding::Code;

/// In the order in which they are reported.
pub(super) const CAUTIONS: &[Caution] = &[
    Caution {
        code: Code::InvalidPackets,
        is_warning: false,
        setting: Setting::DropInvalid,
        applies: |facts| facts.lets_invalid_in(),
        text: "is off: one packet outside its connection's window resets a captured connection",
        remedy: "give {--drop-invalid}",
    },
    Caution {
        code: Code::VmWithTproxy,
        is_warning: true,
        setting: Setting::VmInterfaces,
        applies: |facts| facts.captures_inbound && facts.is_transparent() && facts.has_machines(),
        text: "with TPROXY, what virtual machines send is captured as inbound, and the answers to what is excluded are \
               taken for the proxy's own, so that those connections never come about",
        remedy: "use {-m} REDIRECT",
    },
    Caution {
        code: Code::PortsCollide,
        is_warning: false,
        setting: Setting::InboundCapturePort,
        applies: |facts| facts.joins_ports() && !facts.is_transparent(),
        text: "several ports are redirected to one, so a client that calls two of them from one port collides",
        remedy: "give a range of ports, if the proxy can listen on one, or use TPROXY",
    },
];
