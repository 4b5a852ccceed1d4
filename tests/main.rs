//! The one test binary.

mod architecture;
mod dumps;
#[cfg(feature = "e2e")]
mod e2e;
#[cfg(feature = "e2e")]
mod support;
