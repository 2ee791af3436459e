"""Memory of GPUs and page-locked memory of the host."""
