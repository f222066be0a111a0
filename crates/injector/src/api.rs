//! JSON requests to an API server, for commands.

use cluster::error::status;
use hyper::Request;
use kube::Client;
use serde_json::Value;
use std::io;
use tokio::runtime::Builder;

pub(crate) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

pub(crate) struct ApiServer(pub(crate) Client);

impl ApiServer {
    /// `None` for status 404.
    pub(crate) async fn get(&self, path: &str) -> kube::Result<Option<Value>> {
        match self.send(Request::get(path).body(Vec::new())).await {
            Err(error) if status(&error) == Some(404) => Ok(None),
            answer => answer.map(Some),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> kube::Result<Vec<Value>> {
        let list = self.get(path).await?;
        Ok(list.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> kube::Result<Value> {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(body.to_string().into_bytes())).await
    }

    async fn send(&self, request: hyper::http::Result<Request<Vec<u8>>>) -> kube::Result<Value> {
        self.0.request(request.map_err(kube::Error::HttpError)?).await
    }
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    Ok(Builder::new_current_thread().enable_all().build()?.block_on(work))
}
