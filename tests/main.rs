//! The one test binary.

mod architecture;
#[cfg(feature = "e2e")]
mod differential;
#[cfg(feature = "live")]
mod client;
mod dumps;
#[cfg(feature = "e2e")]
mod e2e;
mod oracle;
#[cfg(feature = "e2e")]
mod support;
