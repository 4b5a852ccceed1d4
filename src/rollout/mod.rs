//! How templates change: a snapshot in, a history or a plan out.
//!
//! [`history`] lists [`revisions`]; [`undo`] and [`restart`] plan a change and collect what may go wrong with it
//! ([`change_warnings`], [`concurrent_edit`]). [`difference`](mod@difference) compares two pod templates by meaning.

mod change_warnings;
pub(crate) mod concurrent_edit;
pub mod difference;
pub(crate) mod history;
pub(crate) mod restart;
pub mod revisions;
pub mod undo;
