"""The plan interpreter: plans as integer words, and the kernels that run them batch by batch."""
