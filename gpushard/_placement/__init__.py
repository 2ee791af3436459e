"""Layer 6: put data on devices, move it between shardings, and read it back."""
