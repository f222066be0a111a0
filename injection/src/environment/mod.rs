//! Environments: the tag of a pod's environment, and the routes that keep a request among pods of one.
