//! `verify`: what really becomes of connections. Right rules are never failed, broken ones always are, whatever holds them;
//! and nothing is done to others.

mod mutations;
mod oracle;
mod pod;
mod rights;
mod surroundings;
