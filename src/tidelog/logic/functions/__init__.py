"""The built-in functions, a module for each area; each registers its functions when it is imported.

`function` has the decorator that registers one, `builtins` imports all areas, finds functions by name,
evaluates them, and is where other packages look them up.

Imports `logic.values`, `logic.types`, `logic.conversions` and `errors`. Begin with `function`, then any
area.
"""
