"""The built-in functions, one file per area; `logic.functions.builtins` is where others find them."""
