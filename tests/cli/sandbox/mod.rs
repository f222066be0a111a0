//! `sidecar-init sandbox` as root, as a user with subordinate IDs and as one without, with its tour and with commands; real bytes
//! through its proxy; and its complete removal, however it ends. Traffic tests run twice: outside they start a sandbox with
//! themselves as the command, and inside they make the connections, because only a process inside has both ends.

mod calls;
mod commands;
mod kills;
mod support;
mod traffic;
