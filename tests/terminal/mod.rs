//! What is drawn on a terminal and redrawn in place, held against a terminal emulator.

#[cfg(unix)]
mod asking;
#[cfg(unix)]
mod following;
mod region;
mod rollout_screen;
#[cfg(unix)]
mod wrapping;
