//! The body of a request: read whole, within its limits of size and of time.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use injection::review::{Answer, MAX_BYTES};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time,
};

/// What all bodies together may hold, in units of 1 KiB: what has arrived of them, not what was announced.
const BUDGET: usize = 64 * 1024;
const UNIT: usize = 1024;
/// How much of a body that is too long is read and thrown away, so that its sender comes to read the answer.
const MAX_DISCARDED: usize = 8 * MAX_BYTES;

/// Memory for bodies, shared by all connections.
pub(super) struct Budget(Arc<Semaphore>);

impl Budget {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BUDGET)))
    }
}

/// A body, and its part of the budget.
pub(super) struct RequestBody {
    bytes: Vec<u8>,
    /// Given back when the answer is made.
    permit: Option<OwnedSemaphorePermit>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLong,
    TooSlow(Duration),
    /// Too much is being read at once.
    Busy,
    Broken(String),
}

impl RequestBody {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes more, if the budget allows.
    fn extend(&mut self, bytes: &[u8], budget: &Budget) -> Result<(), BodyError> {
        let kept = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let needed = (self.bytes.len() + bytes.len()).div_ceil(UNIT).saturating_sub(kept);
        let needed = u32::try_from(needed).map_err(|_| BodyError::Busy)?;
        let more = Arc::clone(&budget.0).try_acquire_many_owned(needed).map_err(|_| BodyError::Busy)?;
        match &mut self.permit {
            Some(permit) => permit.merge(more),
            None => self.permit = Some(more),
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl BodyError {
    pub(super) fn answer(&self) -> Answer {
        match self {
            Self::TooLong => Answer::unreadable(&format!("it is longer than {MAX_BYTES} bytes")),
            Self::Broken(reason) => Answer::unreadable(reason),
            Self::TooSlow(timeout) => {
                Answer::text(408, &format!("the body did not come within {} s", timeout.as_secs_f64()))
            }
            Self::Busy => Answer::text(503, "too much is being read at once; try again"),
        }
    }
}

/// Reads all of it.
pub(super) async fn read<B>(body: B, budget: &Budget, timeout: Duration) -> Result<RequestBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + Send + Sync + 'static,
{
    match time::timeout(timeout, read_all(body, budget)).await {
        Ok(read) => read,
        Err(_) => Err(BodyError::TooSlow(timeout)),
    }
}

async fn read_all<B>(mut body: B, budget: &Budget) -> Result<RequestBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + Send + Sync + 'static,
{
    let mut whole = RequestBody { bytes: Vec::new(), permit: None };
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
        let Some(bytes) = frame.data_ref() else { continue };
        if whole.bytes.len() + bytes.len() > MAX_BYTES {
            drop(whole);
            discard(body).await;
            return Err(BodyError::TooLong);
        }
        whole.extend(bytes, budget)?;
    }
    Ok(whole)
}

async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let mut thrown = 0;
    while let Some(Ok(frame)) = body.frame().await {
        thrown += frame.data_ref().map_or(0, Bytes::len);
        if thrown > MAX_DISCARDED {
            return;
        }
    }
}
