//! Failing goldens. No file of `/proc` can be written, so they fail with `UPDATE_GOLDENS` too.

use testkit::golden;

#[test]
#[should_panic(expected = "/proc/version")]
fn string_other_than_its_file_fails() {
    golden("/proc/version", "another version\n");
}

#[test]
#[should_panic(expected = "/proc/none")]
fn string_without_a_file_fails() {
    golden("/proc/none", "");
}
