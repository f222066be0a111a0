//! The end of a review whose caller waits no longer. A thread can't be stopped, so the work checks for its cancellation between
//! its steps, and where a pod or a template can make a step long.

use mesh::{InputProblem, Problems};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }

    pub fn is_cancelled(&self) -> bool {
        self.0.load(Relaxed)
    }

    pub(crate) fn check(&self) -> Result<(), Problems> {
        let problem = || Problems(vec![InputProblem::of("pod", "its review was cancelled")]);
        if self.is_cancelled() { Err(problem()) } else { Ok(()) }
    }
}
