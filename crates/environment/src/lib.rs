//! Routes that keep an environment's requests within its pods.
//!
//! Pods have their environment in a label (`virtual-env: dev.red`), requests in a header. The webhook that passes a pod's
//! environment to its proxy is [`injection::tag`]; the injector's operator watches and changes the cluster.
//!
//! Pure: no file, no clock, no network, no log.
//!
//! ```text
//! VirtualEnvironment      resource     validated header and label of environments
//! Services, workloads     inventory    parsed objects, and the hosts that a Service may route
//!                         suggestions  near misses of labels, annotations and kinds
//!                         rule         a Service's additions to each of its routes
//!                         routes       the plan: desired objects, and warnings; the plan as a table
//! existing objects        existing     ownership of objects
//!                         changes      the writes, in an order that loses no request
//!                         conditions   the active VirtualEnvironment, and status conditions
//! ```
#![forbid(unsafe_code)]

pub mod changes;
pub mod conditions;
pub mod existing;
pub mod inventory;
pub mod resource;
pub mod routes;
pub mod rule;
pub mod suggestions;
