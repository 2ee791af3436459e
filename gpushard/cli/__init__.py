"""Layer 9: the command line, `gpushard demo` and `gpushard info`."""
