"""A backend around another one that finds races."""
