//! What the scenes are played with: namespaces, real traffic, a pod with its surroundings, and tables of
//! cases.

pub(crate) mod address;
pub(crate) mod case;
pub(crate) mod namespace;
pub(crate) mod pod;
pub(crate) mod setting;
pub(crate) mod traffic;
