//! `verify`: real verdicts for connections. Correct rules never fail, broken ones always do, in any backend, and other programs
//! are not affected.

mod mutations;
mod oracle;
mod pod;
mod rights;
mod surroundings;
