//! Output that is redrawn in place, tested with a terminal emulator.

#[cfg(unix)]
mod asking;
#[cfg(unix)]
mod following;
mod region;
mod rollout_screen;
#[cfg(unix)]
mod wrapping;
