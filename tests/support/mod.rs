//! Parts of scenes: namespaces, real traffic, a pod with its surroundings, programs, and tables of cases.

pub(crate) mod address;
pub(crate) mod case;
pub(crate) mod engine;
pub(crate) mod mounts;
pub(crate) mod namespace;
pub(crate) mod note;
pub(crate) mod pod;
pub(crate) mod program;
pub(crate) mod random;
pub(crate) mod rows;
pub(crate) mod session;
pub(crate) mod setting;
pub(crate) mod terminal;
pub(crate) mod traffic;

pub(crate) use testkit::{folder, scenarios as catalogue, scope, wait};
