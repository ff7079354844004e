"""What a program means: values, functions, resolution, strata."""
