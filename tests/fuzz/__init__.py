"""Fuzzing: `make fuzz SECONDS=60`, or `python -m tests.fuzz --seconds 60 --seed 1 --only csv`.

Each way in is a target. An input is a seed or a file of the corpus, changed by mutations, which depend on the
seed of the run and the number of the input only. Inputs run in a child process. A fault is anything but a
result or a diagnostic that can be shown: a traceback, a signal, no end, too much memory. An input at fault is
made smaller and written to `corpus/<target>/`, which `test_fuzz.py` replays.
"""
