"""What a program means: from the syntax tree to rules over predicates, values and functions.

`program` has the result, `resolve` makes it (with `scopes` for names, `signatures`, `clauses` and
`expressions`), `strata` orders it, `type_inference` types it. `values`, `conversions` and `intervals` are
what facts are made of; `change_scripts` reads transactions.

Imports `syntax` and `errors` only. Begin with `program`, then `resolve.resolve`.
"""
