//! What a pod says, understood: the capture that its words make.

use super::said::Said;
use crate::Problems;
use crate::mesh::{self, Resolved};
use crate::sources::{Host, Reader};

impl Said {
    /// Understands them. Users and groups are numbers: whoever asks from outside of a pod does not know its names.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        self.resolved(host, true)
    }

    /// Understands them as the pod does when it starts: `host` tells what names of users and groups mean there.
    ///
    /// # Errors
    /// Every problem found.
    pub fn resolve_within(&self, host: &dyn Host) -> Result<Resolved, Problems> {
        self.resolved(host, false)
    }

    fn resolved(&self, host: &dyn Host, numbers_only: bool) -> Result<Resolved, Problems> {
        let mut reader = Reader::new(&self.raw, self.problems());
        let capture = mesh::configure(&mut reader, host, numbers_only);
        let warnings = reader.finish()?;
        Ok(Resolved { capture, warnings })
    }
}
