//! Requests of the commands that ask an API server once, with objects as JSON.

use cluster::error::{describe, status};
use hyper::Request;
use kube::Client;
use serde_json::Value;

pub(crate) const CONFIGURATIONS: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

pub(crate) struct ApiServer {
    client: Client,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoAnswer {
    pub(crate) status: Option<u16>,
    pub(crate) text: String,
}

impl ApiServer {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    /// `None` where there is none.
    pub(crate) async fn get(&self, path: &str) -> Result<Option<Value>, NoAnswer> {
        match self.send(Request::get(path).body(Vec::new())).await {
            Err(error) if error.status == Some(404) => Ok(None),
            Err(error) => Err(error),
            Ok(value) => Ok(Some(value)),
        }
    }

    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>, NoAnswer> {
        let list = self.get(path).await?;
        Ok(list.and_then(|list| list["items"].as_array().cloned()).unwrap_or_default())
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value, NoAnswer> {
        let request = Request::post(path).header("content-type", "application/json");
        self.send(request.body(body.to_string().into_bytes())).await
    }

    async fn send(&self, request: Result<Request<Vec<u8>>, hyper::http::Error>) -> Result<Value, NoAnswer> {
        let request = request.map_err(|error| NoAnswer { status: None, text: error.to_string() })?;
        self.client
            .request::<Value>(request)
            .await
            .map_err(|error| NoAnswer { status: status(&error), text: describe(&error) })
    }
}
