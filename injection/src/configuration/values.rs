//! The values that templates are filled with, as the `values` of Istio's ConfigMap hold them.

use serde_json::Value;

/// Values, with Istio's defaults beneath what was given.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// All of it, for templates that name what no code of ours knows.
    pub raw: Value,
}
