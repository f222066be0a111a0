//! The input of templates.

use crate::admission::AdmissionContext;
use crate::mesh_config::{IstioValues, MeshConfig};
use crate::sidecar::Sidecar;
use serde_json::Value;

#[derive(Clone, Copy, Debug)]
pub struct TemplateContext<'a> {
    /// The pod, without what an earlier injection has added.
    pub pod: &'a Value,
    pub admission: &'a AdmissionContext,
    pub sidecar: &'a Sidecar,
    pub values: &'a IstioValues,
    pub mesh: &'a MeshConfig,
}
