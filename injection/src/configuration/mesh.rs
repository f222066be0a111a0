//! Settings of the whole mesh: Istio's `MeshConfig`, and the `ProxyConfig` in it.

use serde_json::Value;

/// A MeshConfig, with Istio's defaults beneath what was given.
#[derive(Clone, Debug, Default)]
pub struct Mesh {
    /// All of it, by the names of its JSON form (`defaultConfig.interceptionMode`).
    pub raw: Value,
}
