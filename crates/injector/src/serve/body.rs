//! The body of a request: read whole, within its limits of size and of time.

use super::size_class::Turn;
use super::size_class::{Share, SizeClasses};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};
use injection::review::{Answer, MAX_BYTES};
use std::{error::Error, sync::Arc, time::Duration};
use tokio::time;

/// Bytes of a body that is too long: they are read and thrown away, so that its sender comes to read the answer.
const MAX_DISCARDED: usize = 8 * MAX_BYTES;

/// A complete body.
pub(super) struct RequestBody {
    bytes: Vec<u8>,
    /// Given back when the answer is made.
    share: Share,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLong,
    TooSlow(Duration),
    /// Another request needs the memory or the connection, and this one has been incomplete for the longest time.
    Evicted,
    Broken(String),
}

impl RequestBody {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) async fn turn(&self) -> Turn {
        self.share.turn().await
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
            Self::Evicted => Answer::text(503, "too much is being read at once; try again"),
        }
    }
}

pub(super) async fn read<B>(
    body: B,
    classes: &Arc<SizeClasses>,
    timeout: Duration,
    evicted: impl Future<Output = ()>,
) -> Result<RequestBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + Send + Sync + 'static,
{
    let share = Share::of(classes);
    tokio::select! {
        // A body that is complete already is not evicted.
        biased;
        read = time::timeout(timeout, read_all(body, share)) => read.unwrap_or(Err(BodyError::TooSlow(timeout))),
        () = evicted => Err(BodyError::Evicted),
    }
}

async fn read_all<B>(mut body: B, mut share: Share) -> Result<RequestBody, BodyError>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error + Send + Sync + 'static,
{
    let evicted = share.eviction();
    let mut bytes = Vec::new();
    let whole = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
            let Some(more) = frame.data_ref() else { continue };
            if bytes.len() + more.len() > MAX_BYTES {
                return Err(BodyError::TooLong);
            }
            share.grow(bytes.len() + more.len()).await;
            bytes.extend_from_slice(more);
        }
        Ok(())
    };
    let read = tokio::select! {
        biased;
        read = whole => read,
        () = evicted.notified() => Err(BodyError::Evicted),
    };
    match read {
        Ok(()) if share.complete() => Ok(RequestBody { bytes, share }),
        Ok(()) => Err(BodyError::Evicted),
        Err(BodyError::TooLong) => {
            drop((bytes, share));
            discard(body).await;
            Err(BodyError::TooLong)
        }
        Err(error) => Err(error),
    }
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
