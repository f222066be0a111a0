//! Status pages of the operator, for its client on the same machine.

use super::core::Core;
use cluster::logging::LogLevelHandle;
use cluster::status::{Reply, TEXT, reply};
use hyper::StatusCode;
use serde_json::{Map, Value, json};
use std::{cell::RefCell, rc::Rc};
use tracing::level_filters::LevelFilter;

const JSON: &str = "application/json";

pub(super) struct Inspection {
    pub(super) core: Rc<RefCell<Core>>,
    pub(super) level: LogLevelHandle,
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
}

impl Inspection {
    pub(super) fn page(&self, path: &str, query: Option<&str>) -> Reply {
        match path {
            "/status" => reply(StatusCode::OK, JSON, format!("{:#}\n", self.status())),
            "/version" => {
                let version = json!({"Version": env!("CARGO_PKG_VERSION"), "BuildTime": ""});
                reply(StatusCode::OK, JSON, format!("{version}\n"))
            }
            "/log" => self.log(query.unwrap_or_default()),
            _ => reply(StatusCode::NOT_FOUND, TEXT, "not found; paths are /status, /version and /log\n"),
        }
    }

    fn log(&self, query: &str) -> Reply {
        let level = query.split('&').find_map(|part| part.strip_prefix("level="));
        let refused = |text: String| reply(StatusCode::BAD_REQUEST, TEXT, text);
        let Some(level) = level else { return refused("parameter \"level\" missing.".to_owned()) };
        let filter = match level {
            "ERROR" => LevelFilter::ERROR,
            "INFO" => LevelFilter::INFO,
            "DEBUG" => LevelFilter::DEBUG,
            _ => return refused(format!("invalid level: {level} (should be ERROR, INFO or DEBUG)")),
        };
        self.level.set(filter);
        reply(StatusCode::OK, TEXT, format!("log level changed to {level}"))
    }

    /// One namespace in upstream's format, or several by name.
    fn status(&self) -> Value {
        let core = self.core.borrow();
        if let Some(namespace) = &self.namespace {
            return one(&core, namespace);
        }
        let all = core.store.namespaces();
        let by_name: Map<String, Value> =
            all.into_iter().map(|namespace| (namespace.clone(), one(&core, &namespace))).collect();
        json!({"Namespaces": by_name})
    }
}

fn one(core: &Core, namespace: &str) -> Value {
    let here = core.store.within(namespace);
    let services = here.services.iter().map(|service| {
        let value = json!({
            "Selectors": service.selector, "Ports": service.http_ports, "Gateways": service.gateways,
            "Hosts": service.hosts, "CustomRule": service.rule_text,
        });
        (service.name.clone(), value)
    });
    let labels = here.workloads.iter();
    let labels =
        labels.map(|workload| (format!("{}#{}", workload.kind, workload.name), json!(workload.labels)));
    json!({
        "VirtualEnv": here.ranked().first().map(|one| json!({"Namespace": one.namespace, "Name": one.name})),
        "Services": services.collect::<Map<String, Value>>(),
        "Labels": labels.collect::<Map<String, Value>>(),
    })
}
