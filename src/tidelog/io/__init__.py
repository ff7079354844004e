"""Files and Python data in and out, as Arrow columns, in one process."""
