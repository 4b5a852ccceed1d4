//! Properties of all pod templates, tested on random templates and on those of a real cluster.

mod apply;
mod properties;
mod recorded;
mod undoing;
