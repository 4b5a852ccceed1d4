@rem Completes `kubectl ds`. kubectl runs this file, which must be in PATH.
@kubectl-ds __complete -- %*
