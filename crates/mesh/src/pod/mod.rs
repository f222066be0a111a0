//! A pod as a source of configuration: its manifest or its annotations, as the settings that flags are.
//!
//! A pod speaks in two ways: by annotations, to a plugin that sets the rules for it ([`annotated`]), and by the
//! arguments and variables of an init container that sets them itself. Both become a [`GivenSettings`]: a [`Raw`] whose values
//! know where they come from, and what is wrong with their form. [`skip`] decides whether a plugin captures the pod
//! at all.
//!
//! A plugin that is handed annotations, and a network configuration that holds settings, does this:
//!
//! ```
//! use mesh::Resolved;
//! use mesh::pod::{EXCLUDED_NAMESPACES, Pod, annotated, configured, skip};
//! use mesh::{Host, Problems};
//! use std::collections::BTreeMap;
//!
//! fn wanted(
//!     annotations: BTreeMap<String, String>,
//!     configuration: &BTreeMap<String, String>,
//!     namespace: &dyn Host,
//! ) -> Result<Option<Resolved>, Problems> {
//!     // By the settings' own names, such as proxy-uid. The pod's annotations win, setting by setting.
//!     let configured = configured("capture", configuration);
//!     if !configured.problems().is_empty() {
//!         return Err(Problems(configured.problems()));
//!     }
//!     let pod = Pod::annotated("web", "shop", annotations);
//!     match skip(&pod, EXCLUDED_NAMESPACES) {
//!         Some(_reason) => Ok(None),
//!         None => annotated(&pod, "Pod shop/web", &configured.raw).resolve(namespace).map(Some),
//!     }
//! }
//! ```
//!
//! For a pod without any annotations, what is configured can be all there is: `configured.resolve(namespace)`. It is then
//! what the same flags would make, without the defaults that annotations have.
//!
//! [`Raw`]: crate::sources::Raw

pub use crate::settings::mapping;

mod annotations;
mod applications;
mod decision;
mod expand;
mod facts;
mod form;
mod given;
mod holders;
mod init;
mod known;
mod lifecycle;
mod malformed;
mod manifest;
pub(crate) mod mesh;
mod misplaced;
mod networks;
mod node;
mod proxy_config;
mod reading;
mod resolve;
mod scalar;
mod shape;
mod standard;
mod values;
mod walk;
mod yaml;

pub use annotations::{annotated, configured};
pub use applications::{Application, Id};
pub use decision::{EXCLUDED_NAMESPACES, INIT, Skip, reads_variable, skip, skip_unnamed};
pub use facts::{Container, Pod, Spec, Status, Value, Variable};
pub use given::GivenSettings;
pub use holders::{Document, Holder, holders};
pub use init::VALIDATION;
pub use known::{nearest_annotation, unknown, unknown_among};
pub use manifest::{ManifestObject, objects, objects_in};
pub use mesh::{MeshSign, signs};
pub use reading::{CaptureMethod, Reading, read};
pub use standard::{ENFORCE, Standard};
pub use values::{Located, located, values, values_of_later_keys};
pub use walk::{kinds, template_of};
