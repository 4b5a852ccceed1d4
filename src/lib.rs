//! kubectl-ds: why does this node have no DaemonSet pod, and what to do about it?
//!
//! Data flows one way:
//!
//! ```text
//! args → settings → source → Snapshot → facts → coverage or rollout → report or plan → render or write
//! ```
//!
//! [`commands`] turns arguments into settings and runs the rest; [`cluster`] reads a live cluster or a dump into a
//! [`model::snapshot::Snapshot`]; [`scheduling`] contains the rules of the DaemonSet controller and the scheduler; [`facts`]
//! derives what is known about a DaemonSet; [`coverage`] and [`rollout`] turn both into a [`report`]; [`render`] shows it.

// clippy.toml lists them: only the edge reads the time and the environment.
#![deny(clippy::disallowed_methods)]
// Errors are values here: only tests, which clippy.toml exempts, may panic.
#![deny(clippy::expect_used, clippy::panic, clippy::unreachable, clippy::unwrap_used)]

#[macro_use(apply)]
extern crate macro_rules_attribute;

pub mod cluster;
pub mod commands;
pub mod connection;
pub mod coverage;
pub mod difference;
pub mod encode;
pub mod error;
pub mod facts;
pub mod interrupt;
pub mod io;
pub mod model;
pub(crate) mod plan;
pub mod process;
pub mod render;
pub mod report;
pub mod rollout;
pub mod scheduling;
pub mod validation;
