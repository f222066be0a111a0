//! Goldens fail where they have to. No file of `/proc` can be written, so that these fail with `UPDATE_GOLDENS`, too.

use testkit::golden;

#[test]
#[should_panic(expected = "/proc/version")]
fn a_text_other_than_that_of_its_file_fails() {
    golden("/proc/version", "another version\n");
}

#[test]
#[should_panic(expected = "/proc/none")]
fn a_text_without_a_file_fails() {
    golden("/proc/none", "");
}
