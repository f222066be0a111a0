//! Templates render a sidecar as a pod patch.

mod built_in;
mod context;
pub mod go;
mod opentelemetry;

pub use built_in::BuiltIn;
pub use context::TemplateContext;

use crate::sidecar::Sidecar;
use mesh::{InputProblem, Problems, data::document::noun};
use serde_json::Value;

#[derive(Clone, Debug)]
pub enum InjectionTemplate {
    BuiltIn(BuiltIn),
    Go(go::Template),
    /// Invalid Go template, with the problems for pods that use it.
    Unreadable(Problems),
}

impl InjectionTemplate {
    pub fn read(name: &str, written: &Value) -> Result<Self, Problems> {
        match written {
            Value::String(text) => go::Template::read(name, text).map(Self::Go),
            other => {
                let text =
                    format!("is {}; expected a Go template as a string (see docs/templates.md)", noun(other));
                Err(Problems(vec![InputProblem::of(name, text)]))
            }
        }
    }

    /// Sets the ports and the user of a proxy other than Istio's. Called before any template is rendered.
    pub fn adapt(&self, sidecar: &mut Sidecar) {
        if let Self::BuiltIn(template) = self
            && let Some(proxy) = template.other_proxy()
        {
            sidecar.replace_proxy(proxy);
        }
    }

    /// The patch of the pod, for a strategic merge, and `warnings` about it. Returns every problem of the input.
    pub fn render(
        &self,
        context: &TemplateContext<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Value, Problems> {
        match self {
            Self::BuiltIn(template) => template.render(context),
            Self::Go(template) => template.render(context, warnings),
            Self::Unreadable(problems) => Err(problems.clone()),
        }
    }
}
