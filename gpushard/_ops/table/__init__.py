"""The rows, by kind."""
