"""Files and Python data in and out, as batches of Arrow columns, within one process.

`reader.read` chooses by format: `delimited`, `json_files`, `arrow_files`, `rdf`; `python_data` does the
same for objects, `write` for output. `data_file` says where rows come from, `rejects` what becomes of rows
that cannot be read, `row_readers` is the part of reading that runs in tasks of Spark (and knows nothing of
Spark).

Imports `durable`, `data`, `logic` and `errors`. Begin with `data_file`, then `reader`.
"""
