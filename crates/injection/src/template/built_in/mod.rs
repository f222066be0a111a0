//! The built-in templates: Istio's proxy, Envoy alone and linkerd's proxy, as functions from a sidecar to a patch of its pod. What
//! they share is in `context`.

mod context;
mod sidecar;
mod text;

use super::TemplateContext;
use crate::sidecar::OtherProxy;
use context::RenderContext;
use mesh::Problems;
use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Istio's proxy: its agent, which starts Envoy, as istiod expects it.
    Sidecar,
    Envoy,
    /// linkerd's proxy, as its control plane expects it.
    Linkerd,
}

impl BuiltIn {
    pub const ALL: [Self; 3] = [Self::Sidecar, Self::Envoy, Self::Linkerd];

    /// The name by which configurations and pods choose it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sidecar => "sidecar",
            Self::Envoy => "envoy",
            Self::Linkerd => "linkerd",
        }
    }

    pub(super) fn other_proxy(self) -> Option<&'static OtherProxy> {
        match self {
            Self::Sidecar => None,
            Self::Envoy => Some(&text::ENVOY),
            Self::Linkerd => Some(&text::LINKERD),
        }
    }

    fn container(self) -> &'static str {
        match self {
            Self::Sidecar => crate::sidecar::PROXY,
            Self::Envoy => "envoy",
            Self::Linkerd => "linkerd-proxy",
        }
    }

    pub(super) fn render(self, input: &TemplateContext<'_>) -> Result<Value, Problems> {
        let mut context = RenderContext::of(self.name(), self.container(), input);
        let parts = match self {
            Self::Sidecar => sidecar::parts(&mut context),
            Self::Envoy | Self::Linkerd => text::parts(self, &mut context),
        };
        Problems::check(std::mem::take(&mut context.problems)).map(|()| context.patch(parts))
    }
}
