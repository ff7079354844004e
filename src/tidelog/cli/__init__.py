"""The command line: options, messages and results of the commands in `cli.commands`.

`options` (standard library only) and `arguments` define the options, `program_sources` and `updates` read
programs and change scripts, `work` is a program with its data and reasoner, `output`, `results` and
`statistics` print.

May import everything below; only here is rich imported, and nothing before it is needed. Begin with
`tidelog.__main__`, then the command in question.
"""
