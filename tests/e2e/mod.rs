//! End-to-end tests against a real control plane.

mod agreement;
mod control_plane;
mod recording;
mod rollouts;
mod stopped_parts;
