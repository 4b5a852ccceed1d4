//! One file a subcommand: its arguments, the settings they resolve to, and its run.
