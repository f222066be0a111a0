//! The settings of a pod, understood: the capture that they make.

use super::given::GivenSettings;
use crate::Problems;
use crate::registry::{self, Resolved};
use crate::sources::{Host, SettingReader};

impl GivenSettings {
    /// Resolves them. Users and groups are numbers: their names are not known outside of a pod.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        self.resolved(host, true)
    }

    /// Resolves them as the pod does when it starts: `host` looks up the names of users and groups there.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve_within(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        self.resolved(host, false)
    }

    fn resolved(&self, host: &dyn Host, numbers_only: bool) -> Result<Resolved, Problems> {
        let mut reader = SettingReader::new(&self.raw, self.problems());
        let capture = registry::configure(&mut reader, host, numbers_only);
        let warnings = reader.finish()?;
        Ok(Resolved { capture, warnings })
    }
}
