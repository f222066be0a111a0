//! What the page asks, and the configurations in it.

use diagnose::Subject;
use diagnose::explain::{ApplicationUser, PacketQuery, PodContext, QuestionContext, packet};
use mesh::sources::SettingReader;
use mesh::{Capture, Problems};
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

/// A subject that is understood.
pub(crate) struct Prepared {
    pub(crate) capture: Capture,
    pub(crate) pod: PodContext,
    pub(crate) packet: Option<PacketQuery>,
    pub(crate) warnings: Vec<String>,
}

/// Reads the configuration of a subject, and the packet too where the request asks about one.
pub(crate) fn prepare(subject: &Subject, asks: bool) -> Result<Prepared, Problems> {
    let mut reader = SettingReader::new(&subject.raw, subject.before.clone());
    let host = subject.host();
    let capture = mesh::configure(&mut reader, &*host, false);
    let pod = PodContext::from_settings(&subject.raw, Some(&*capture), Some(&*host));
    let user = ApplicationUser::all(subject.applications()).into_iter().next();
    let pod = user.iter().fold(pod, PodContext::with_application);
    let place = QuestionContext { pod: &pod, routes: &pod, names: &|_| None };
    let packet = if asks { packet(&mut reader, &place) } else { None };
    let warnings = reader.finish()?;
    Ok(Prepared { capture, pod, packet, warnings })
}
