"""The built-in functions, one file per area; `logic.builtins` is where others find them."""
