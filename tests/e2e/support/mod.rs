//! The end-to-end tests' additions to `tests/support`: the real control plane, and access to it.

pub mod api;
pub mod control_plane;
pub mod demo_cluster;
pub mod faulty_cluster;
pub mod interceptor;
pub mod kruise;
#[path = "../../support/mod.rs"]
#[expect(dead_code, reason = "the hermetic tests use more of it")]
mod shared;

pub use shared::*;
