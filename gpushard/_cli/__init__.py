"""Layer 10: the command line, `gpushard demo` and `gpushard info`."""
