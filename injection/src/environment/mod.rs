//! Environments: the tag of a pod's environment, and the routes that keep a request among pods of one.
//!
//! Pods carry an environment in a label (`virtual-env: dev.red`), requests carry it in a header. [`tag`] tells a pod's proxy its
//! environment when the pod is created; the rest is about a namespace's routes.
//!
//! ```text
//! VirtualEnvironment      spec      what requests and pods carry, checked
//! Services, workloads     world     what there is
//!                         meant     what is written nearly right, and would be passed over in silence
//!                         rule      what a Service adds to each of its routes
//!                         routes    the plan: objects that there are to be, and what is odd
//!                         filter    the one that makes sidecars add the header
//! objects that there are  existing  whose they are
//!                         changes   the writes, in an order in which no request is lost
//!                         standing  who acts, and what each one is told
//!                         table     the plan for people
//! ```

pub mod access;
pub mod changes;
pub mod crd;
pub mod existing;
pub mod filter;
pub mod meant;
pub mod routes;
pub mod rule;
pub mod spec;
pub mod standing;
pub mod table;
pub mod tag;
pub mod world;

use crate::words;
