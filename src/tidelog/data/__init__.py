"""Facts as data, known by no engine: rows of ids, columns of Arrow, and the dictionary between them.

`rows` has `Ids`, `Rows` and the operations on them; `columns` the form in which data comes in; `dictionary`
gives values their ids, `decode` and `typed_columns` turn ids back into values, and the latter has columns of
values that need no ids; `relation` is the table that users see. `dictionary_kernels` and `text_kernels` are
compiled.

Imports `rewrite`, `logic`, `errors` and `compiled`. Begin with `rows`, then `dictionary`.
"""
