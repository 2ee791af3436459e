"""Layer 6: how data gets onto devices, from one sharding to another, and back."""
