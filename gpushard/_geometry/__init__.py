"""Layer 1: boxes, meshes and shardings, on integers, names and opaque devices."""
