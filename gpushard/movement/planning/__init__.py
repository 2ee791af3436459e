"""Pure functions that make plans: who holds what, what stays, who copies what from whom."""
