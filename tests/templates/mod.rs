//! What holds for all pod templates, shown on templates made at random, and for those of a real cluster.

mod apply;
mod properties;
mod recorded;
mod undoing;
