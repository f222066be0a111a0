//! How a pod's traffic reaches its proxy: the interception mode, the init container, and what another proxy than Istio's
//! changes about that.

use mesh::pod::{INIT, VALIDATION};

/// How inbound traffic reaches the proxy (`sidecar.istio.io/interceptionMode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Redirect,
    Tproxy,
    /// Nothing is captured: no init container.
    None,
}

/// Which init container a pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitMode {
    /// `istio-init`, which sets the rules.
    Capture,
    /// `istio-validation`, which checks those that a plugin has set.
    Validation,
    /// None, in mode NONE.
    Nothing,
}

impl Mode {
    /// As annotations and arguments name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redirect => "REDIRECT",
            Self::Tproxy => "TPROXY",
            Self::None => "NONE",
        }
    }
}

impl InitMode {
    /// The name of the container; `None` where there is none.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Capture => Some(INIT),
            Self::Validation => Some(VALIDATION),
            Self::Nothing => None,
        }
    }
}

/// In what the proxy of a template differs from Istio's. It has no agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherProxy {
    /// Where it listens for outbound and for inbound connections; `None` where Istio's proxy would.
    pub outbound_port: Option<u16>,
    pub inbound_port: Option<u16>,
    /// The user by which the rules know it.
    pub uid: Option<u32>,
    /// Its ports that are never captured.
    pub own_ports: &'static [u16],
}
