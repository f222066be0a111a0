//! A client that is exchanged for a new one when the API server has refused its credentials (401).
//!
//! The client of `kube` reads a token's file once a minute, and the rest of a kubeconfig never again. An API server that knows
//! other tokens from one moment to the next, as one that was restored, would refuse all calls for that minute, by watches and
//! by the renewal of a Lease of 15 seconds. The call that was refused is not repeated: all callers try again by themselves.

use crate::access::ClientSource;
use http::{Request, Response, StatusCode};
use kube::{Client, Error, client::Body};
use std::{
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower_service::Service;

/// The shortest time between two clients: as long as the old credentials are all there is, each call is refused.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// The service behind a client that all callers share.
#[derive(Clone)]
pub(crate) struct Renewing(Arc<Shared>);

struct Shared {
    source: ClientSource,
    state: Mutex<RenewalState>,
}

struct RenewalState {
    client: Client,
    /// How often it was exchanged: an answer to an old client says nothing of the new one.
    exchanges: u64,
    is_refused: bool,
    /// When a new one was last begun.
    begun: Option<Instant>,
}

impl Renewing {
    pub(crate) fn new(client: Client, source: ClientSource) -> Self {
        let state = RenewalState { client, exchanges: 0, is_refused: false, begun: None };
        Self(Arc::new(Shared { source, state: Mutex::new(state) }))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, RenewalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn client(&self) -> (Client, u64) {
        let is_due = {
            let mut state = self.state();
            let is_due = state.is_refused && state.begun.is_none_or(|begun| begun.elapsed() >= MIN_INTERVAL);
            if is_due {
                state.begun = Some(Instant::now());
            }
            is_due
        };
        if is_due && let Ok((client, _)) = self.source.connect().await {
            let mut state = self.state();
            (state.client, state.is_refused) = (client, false);
            state.exchanges += 1;
        }
        let state = self.state();
        (state.client.clone(), state.exchanges)
    }

    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, Error> {
        let (client, exchanges) = self.client().await;
        let response = client.send(request).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            let mut state = self.state();
            state.is_refused |= state.exchanges == exchanges;
        }
        Ok(response)
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
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.send(request).await })
    }
}
