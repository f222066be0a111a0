//! The playground in a real browser: Chromium, driven by WebDriver.
//!
//! The page is built by `scripts/playground`, as anybody would build it. Browsers run in the test's network namespace,
//! where nothing but loopback is to be reached, and in process namespaces of their own, so that all of a browser ends
//! with its test, however that ends.

mod browser;
#[path = "../support/catalogue.rs"]
mod catalogue;
mod keyboard;
mod looks;
mod page;
mod same;
mod server;
mod using;
