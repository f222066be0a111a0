//! Client that is replaced when the API server refuses its credentials (401) or does not answer. `kube`'s client rereads a token
//! file once a minute, but other parts of a kubeconfig never. After a restore with new tokens, all calls would fail for a minute,
//! even renewals of a 15-second Lease; with a new certificate authority, until a restart. The failed call is not repeated: all
//! callers retry.

use crate::{access::ClientSource, error::describe};
use http::{Request, Response, StatusCode};
use kube::{Client, Error, client::Body};
use parking_lot::Mutex;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{pin::Pin, sync::Arc};
use tower_service::Service;

/// Minimum time between clients, while credentials are refused or the API server is unreachable.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub(crate) struct Renewing {
    source: Arc<ClientSource>,
    state: Arc<Mutex<RenewalState>>,
}

struct RenewalState {
    client: Client,
    has_failed: bool,
    begun: Option<Instant>,
    is_logged: bool,
}

impl Renewing {
    pub(crate) fn new(client: Client, source: ClientSource) -> Self {
        let state = RenewalState { client, has_failed: false, begun: None, is_logged: false };
        Self { source: Arc::new(source), state: Arc::new(Mutex::new(state)) }
    }

    async fn client(&self) -> Client {
        {
            let mut state = self.state.lock();
            if !state.has_failed || state.begun.is_some_and(|begun| begun.elapsed() < MIN_INTERVAL) {
                return state.client.clone();
            }
            state.begun = Some(Instant::now());
        }
        let connected = self.source.connect().await;
        let mut state = self.state.lock();
        match connected {
            Ok((client, _)) => (state.client, state.has_failed, state.is_logged) = (client, false, false),
            Err(error) if !state.is_logged => {
                state.is_logged = true;
                tracing::warn!(error = describe(&error), "credentials can't be renewed");
            }
            Err(_) => {}
        }
        state.client.clone()
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        let answer = self.client().await.send(request).await;
        let is_served = answer.as_ref().is_ok_and(|response| response.status() != StatusCode::UNAUTHORIZED);
        // The failed client may already be replaced; another replacement does no harm.
        self.state.lock().has_failed |= !is_served;
        answer
    }
}

impl Service<Request<Body>> for Renewing {
    type Response = Response<Body>;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let own = self.clone();
        Box::pin(async move { own.send(request).await })
    }
}
