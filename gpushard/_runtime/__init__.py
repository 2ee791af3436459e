"""Layer 2: devices, streams, memory and events; it knows nothing of shardings."""
