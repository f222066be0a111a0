//! The built-in templates, functions from a sidecar to a patch of its pod: Istio's proxy, standalone Envoy and linkerd's proxy.

mod context;
mod sidecar;
mod text;

use super::TemplateContext;
use crate::sidecar::{OtherProxy, PROXY};
use context::RenderContext;
use mesh::Problems;
use serde_json::Value;
use text::TextTemplate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltIn {
    /// Istio's proxy as istiod expects it: its agent, which starts Envoy.
    Sidecar,
    Envoy,
    /// linkerd's proxy as its control plane expects it.
    Linkerd,
}

impl BuiltIn {
    pub const ALL: [Self; 3] = [Self::Sidecar, Self::Envoy, Self::Linkerd];

    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// The template's name, its container's name, and its proxy if that is not Istio's.
    fn row(self) -> (&'static str, &'static str, Option<&'static TextTemplate>) {
        match self {
            Self::Sidecar => ("sidecar", PROXY, None),
            Self::Envoy => ("envoy", "envoy", Some(&text::ENVOY)),
            Self::Linkerd => ("linkerd", "linkerd-proxy", Some(&text::LINKERD)),
        }
    }

    pub(super) fn other_proxy(self) -> Option<&'static OtherProxy> {
        self.row().2.map(|template| &template.proxy)
    }

    pub(super) fn render(self, input: &TemplateContext<'_>) -> Result<Value, Problems> {
        let (template, container, of_text) = self.row();
        let mut context = RenderContext { template, container, input, problems: Vec::new() };
        let parts = match of_text {
            Some(template) => template.parts(&mut context),
            None => sidecar::parts(&mut context),
        };
        Problems::check(std::mem::take(&mut context.problems)).map(|()| context.patch(parts))
    }
}
