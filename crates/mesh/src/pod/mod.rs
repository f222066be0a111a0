//! A pod as a source of configuration: annotations, for a plugin that sets the rules ([`annotated`]), or an init container's
//! arguments and variables. Both become [`GivenSettings`]. [`skip`] decides whether a plugin captures the pod at all.

pub use crate::data::reader::{values, values_of_later_keys};
pub use crate::settings::mapping;

mod annotations;
mod decision;
mod facts;
mod given;
mod init;
pub(crate) mod mesh;
mod objects;
mod reading;
mod unread;

pub use annotations::{annotated, configured};
pub use decision::{EXCLUDED_NAMESPACES, INIT, Skip, reads_variable, skip, skip_unnamed};
pub use facts::{Container, Pod, STATUS, Spec, Status, Variable};
pub use given::GivenSettings;
pub use init::VALIDATION;
pub use mesh::{MeshSign, signs};
pub use objects::{ENFORCE, FieldPath, KubernetesObject, ManifestObject, Standard, called, kinds, objects};
pub use reading::{Application, CaptureMethod, Id, Reading, read};
pub use unread::{nearest_annotation, unknown, unknown_among};
