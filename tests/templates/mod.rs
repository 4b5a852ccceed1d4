//! What holds for all pod templates, shown on templates made at random.

mod apply;
pub mod generator;
mod properties;
