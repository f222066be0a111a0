//! The EnvoyFilter that makes sidecars add the header of their pod's environment to requests that lack it.
//!
//! A name that gets into the script is a token of HTTP, so it can't end the string around it.

use super::existing::{self, ENVOY_FILTER};
use super::resource::{EnvironmentSpec, VirtualEnvironment};
use super::syntax;
use super::tag::VARIABLE;
use serde_json::{Value, json};

/// The header of a request that asks the sidecar to log what it does; `DEBUG` asks for all headers.
pub const DIAGNOSE: &str = "KT-ENV-DIAGNOSE";

/// The one version that Istio has of it.
const ISTIO: &str = "networking.istio.io/v1alpha3";

/// It is first in the chain, so that what comes after it, routing above all, sees the header.
pub(super) fn envoy_filter(environment: &VirtualEnvironment, spec: &EnvironmentSpec) -> Value {
    let mut metadata = existing::metadata(environment, &environment.name);
    // As upstream labels it. What a label can't hold leaves it empty, so that an older value goes.
    for (key, value) in [("envLabel", &spec.label), ("envHeader", &spec.header)] {
        metadata["labels"][key] = json!(if syntax::is_label_value(value) { value } else { "" });
    }
    json!({
        "apiVersion": ISTIO, "kind": ENVOY_FILTER, "metadata": metadata,
        "spec": {"configPatches": [{
            "applyTo": "HTTP_FILTER",
            "match": {
                "context": "SIDECAR_OUTBOUND",
                "listener": {"filterChain": {"filter": {"name": "envoy.filters.network.http_connection_manager"}}},
            },
            "patch": {"operation": "INSERT_FIRST", "value": {
                "name": "virtual.environment.lua",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
                    "default_source_code": {"inline_string": script(&spec.header)},
                },
            }},
        }]},
    })
}

/// What the sidecar runs for each request. Its log lines are warnings: proxies print nothing below that.
pub fn script(header: &str) -> String {
    format!(
        r#"local header = "{header}"
local tag = os.getenv("{VARIABLE}")
if tag == "" then
  tag = nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local carried = headers:get(header)
  local diagnose = headers:get("{DIAGNOSE}")
  if carried == nil and tag ~= nil then
    headers:add(header, tag)
  end
  if diagnose == nil then
    return
  end
  if carried ~= nil then
    handle:logWarn("virtual environment: the request carries " .. header .. ": " .. carried)
  elseif tag ~= nil then
    handle:logWarn("virtual environment: the request gets " .. header .. ": " .. tag)
  else
    handle:logWarn("virtual environment: no " .. header .. ", and the pod has no tag")
  end
  if diagnose == "DEBUG" then
    for name, value in pairs(headers) do
      handle:logWarn("virtual environment: " .. name .. ": " .. value)
    end
  end
end
"#
    )
}
