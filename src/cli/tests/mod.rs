//! Documents generated from the commands' tables and types, compared with the files, which `UPDATE_GOLDENS=1` writes.

mod contract;
mod meshes;
