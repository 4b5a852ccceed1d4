//! The one test binary.

mod architecture;
