//! The kubectl plugin: hands the clock, the environment and the streams to the library.

fn main() {}
