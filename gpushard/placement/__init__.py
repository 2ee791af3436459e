"""Layer 5: how data gets onto devices, from one sharding to another, and back."""
