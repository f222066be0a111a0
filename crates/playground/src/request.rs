//! Requests of the page, and the configurations in them.

use diagnose::explain::ApplicationUser;
use diagnose::{Prepared, Subject};
use mesh::Problems;
use serde::Deserialize;

/// The name of a manifest in messages.
pub(crate) const MANIFEST: &str = "manifest";

/// The content of the fields.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PageRequest {
    pub flags: String,
    pub manifest: String,
    pub packet: String,
    /// The configuration before a change, if two are to be compared.
    #[serde(default)]
    pub flags_before: String,
    #[serde(default)]
    pub manifest_before: String,
}

/// Reads the configuration of a subject, and the packet of its first user too where the request asks about one.
pub(crate) fn prepare(subject: &Subject, asks: bool) -> Result<Prepared, Problems> {
    Prepared::of(subject, ApplicationUser::all(subject.applications()).first(), asks)
}
