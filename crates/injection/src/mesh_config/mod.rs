//! Settings of a mesh beside templates: the values of Istio's chart and its MeshConfig, typed, with Istio's defaults beneath.

pub(crate) mod defaults;
pub(crate) mod list;
mod mesh;
pub(crate) mod proxy_config;
mod values;

pub(crate) use mesh::camel;
pub use mesh::{InboundPolicy, MeshConfig};
pub use values::{Cni, IstioValues, Native, ProxyInitValues, ProxyReadinessProbe, ProxyValues, PullPolicy};
