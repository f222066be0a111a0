//! Routes that keep the requests of an environment among its pods.
//!
//! Pods carry an environment in a label (`virtual-env: dev.red`), requests carry it in a header. The webhook that
//! gives a pod's proxy its environment is [`injection::tag`]; a cluster is watched and changed by the injector's operator.
//!
//! Pure: no file, no clock, no network, no log.
//!
//! ```text
//! VirtualEnvironment      resource  the header and the label of environments, checked
//! Services, workloads     inventory what there is, and which hosts a Service may route
//!                         suggestions  labels, annotations and kinds that are nearly known ones
//!                         rule      what a Service adds to each of its routes
//!                         routes    the plan: the objects that should exist, and warnings
//! existing objects        existing  which of them are managed here
//!                         changes   the writes, in an order in which no request is lost
//!                         conditions  which VirtualEnvironment acts, and the status of each
//!                         table     the plan for people
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
pub mod table;
