//! Tests that differ only in their arguments.

/// Makes a test of each row, a name and a call. Tests run in parallel, and a failure has its row's name.
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
