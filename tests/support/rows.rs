//! Tests that differ in their arguments alone.

/// Makes a test of each row: its name, and the call that it makes. They run beside each other, and a failure names its row.
macro_rules! rows {
    ($($(#[$about:meta])* $name:ident: $call:expr;)+) => {$(
        $(#[$about])*
        #[test]
        fn $name() {
            $call;
        }
    )+};
}

pub(crate) use rows;
