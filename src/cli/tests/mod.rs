//! Documents that are generated from the tables and types of the commands: the page of meshes, the schemas of outputs. Tests compare them with the files, which `UPDATE_GOLDENS=1` writes.

mod contract;
mod meshes;
