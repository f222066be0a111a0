//! Mesh settings other than templates: Istio's chart values and MeshConfig, typed, over Istio's defaults.

mod mesh;
pub(crate) mod proxy_config;
mod values;

pub use mesh::MeshConfig;
pub(crate) use mesh::{STATUS_PORT, camel, default_mesh, default_values, without};
pub use values::{IstioValues, Native, ProxyReadinessProbe, ProxyValues};
pub(crate) use values::{excess, listed};
