"""Layer 3: copies between shards. It knows shardings and memory, not the names of operations."""
