//! A client of the Kubernetes Container Runtime Interface, in place of a kubelet, over the runtime's socket. Calls are unary and
//! few, so each has its own connection. gRPC over HTTP/2: each message has a prefix with its length, and the status is in the
//! trailers (gRPC's `PROTOCOL-HTTP2.md`).

pub(crate) mod message;

use http::{HeaderMap, Request};
use prost::{
    Message,
    bytes::{Buf, BufMut, Bytes, BytesMut},
};
use std::{error::Error, path::Path, time::Duration};
use tokio::{net::UnixStream, runtime, time::timeout};

const SERVICE: &str = "http://localhost/runtime.v1.RuntimeService";
const TIMEOUT: Duration = Duration::from_secs(60);
/// One byte for compression, four for the length.
const PREFIX: usize = 5;

pub(crate) fn call<Q: Message, A: Message + Default>(
    socket: &Path,
    method: &str,
    question: &Q,
) -> Result<A, Box<dyn Error>> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        timeout(TIMEOUT, exchange(socket, method, question))
            .await
            .unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}").into()))
    })
}

async fn exchange<Q: Message, A: Message + Default>(
    socket: &Path,
    method: &str,
    question: &Q,
) -> Result<A, Box<dyn Error>> {
    let (client, connection) = h2::client::handshake(UnixStream::connect(socket).await?).await?;
    tokio::spawn(connection);
    let request = Request::post(format!("{SERVICE}/{method}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let (answer, mut body) = client.ready().await?.send_request(request, false)?;
    body.send_data(prefixed(question)?, true)?;
    let (head, mut body) = answer.await?.into_parts();
    let mut received = BytesMut::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        received.put(part);
    }
    // Without a message, the status is in the headers.
    complaint(&body.trailers().await?.unwrap_or(head.headers))?;
    if received.len() < PREFIX {
        return Err("a success without a message".into());
    }
    received.advance(PREFIX);
    Ok(A::decode(received)?)
}

fn prefixed(message: &impl Message) -> Result<Bytes, Box<dyn Error>> {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(message.encoded_len().try_into()?);
    message.encode(&mut bytes)?;
    Ok(bytes.freeze())
}

fn complaint(headers: &HeaderMap) -> Result<(), Box<dyn Error>> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match text("grpc-status") {
        "0" => Ok(()),
        code => Err(format!("status {code}: {}", text("grpc-message")).into()),
    }
}
