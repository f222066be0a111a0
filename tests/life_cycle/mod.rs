//! Life cycle tests: apply, apply again, change, break, recover and clean, in network namespaces.
//!
//! A run either brings a namespace to the desired state or leaves the old one; whatever stopped the last run,
//! the next one arrives. Which packets a rule catches is the concern of the kernel tests, whose namespaces
//! and traffic are used here.
//!
//! They need what the kernel tests need, and `nft`, `setpriv`, `unshare`, `mount` and `pgrep`. Where one is missing
//! they fail; they never skip. Nothing is changed in the namespace that they start in.
//!
//! How much is tried can be set in the environment:
//!
//! | variable            | counts                                                   | default |
//! |---------------------|----------------------------------------------------------|---------|
//! | `LIFE_RERUNS`       | identical runs of each variant                           | 100     |
//! | `LIFE_FAULT_RUNS`   | runs ended by `kill -9`, both variants together          | 200     |
//! | `LIFE_WINDOW_RUNS`  | changes under traffic, all pairs of states together      | 200     |
//! | `LIFE_DRIFT_RULES`  | rules of each scenario that are tampered with, or `all`  | 4       |
//! | `LIFE_NAMESPACES`   | namespaces set up at once                                | 100     |
//! | `LIFE_RIVALS`       | rounds of rival runs in one namespace                    | 10      |

pub(crate) mod stage;
pub(crate) mod upstream;

mod ambient;
mod clean;
mod doctor;
mod drift;
mod faults;
mod flows;
mod groups;
mod hidden;
mod ipv6;
mod kills;
mod listeners;
mod lock;
mod migrate;
mod moments;
mod named;
mod parallel;
mod paused;
mod programs;
mod removal;
mod rerun;
mod routing;
mod takeover;
mod unlisted;
mod window;
