//! End-to-end tests against a real control plane.

mod control_plane;
mod recording;
