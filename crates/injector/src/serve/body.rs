//! Body of a request, within its size and time limits.

use super::size_class::{Share, SizeClasses};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use injection::review::{Answer, MAX_BYTES};
use std::{sync::Arc, time::Duration};
use tokio::time;

/// Bytes of an overlong body that are read and discarded, so that its sender reads the answer.
const MAX_DISCARDED: usize = 8 * MAX_BYTES;

/// The 503 for the request incomplete the longest, when another needs its memory or connection.
fn evicted_answer() -> Answer {
    Answer::text(503, "too many requests are being read; try again")
}

/// Reads the body; fails with the answer to an unreadable one. Dropping the share returns its memory.
pub(super) async fn read(
    mut body: Incoming,
    classes: &Arc<SizeClasses>,
    timeout: Duration,
    evicted: impl Future<Output = ()>,
) -> Result<(Vec<u8>, Share), Answer> {
    let (mut bytes, mut length, mut share) = (Vec::new(), 0, Share::of(classes));
    let out_of_memory = share.eviction();
    let whole = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Answer::unreadable(&error.to_string()))?;
            let Some(more) = frame.data_ref() else { continue };
            length += more.len();
            if length <= MAX_BYTES {
                share.grow(length).await;
                bytes.extend_from_slice(more);
            } else if length > MAX_DISCARDED {
                break;
            } else if !bytes.is_empty() {
                (bytes, share) = (Vec::new(), Share::of(classes));
            }
        }
        let too_long = || Answer::unreadable(&format!("it is longer than {MAX_BYTES} bytes"));
        if length > MAX_BYTES { Err(too_long()) } else { Ok(()) }
    };
    tokio::select! {
        // A complete body is not evicted.
        biased;
        read = time::timeout(timeout, whole) => match read {
            Ok(read) => read?,
            Err(_) => {
                let reason = format!("the body did not arrive within {} s", timeout.as_secs_f64());
                return Err(Answer::text(408, &reason));
            }
        },
        () = out_of_memory.notified() => return Err(evicted_answer()),
        () = evicted => return Err(evicted_answer()),
    }
    if share.complete() { Ok((bytes, share)) } else { Err(evicted_answer()) }
}
