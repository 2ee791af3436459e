"""Which GPUs there are, how they are divided, and whether they can be used."""
