"""A command whose process is killed: `python -m tests.spark.killed FUNCTION before|after COUNT ARGUMENT …`.

It dies by SIGKILL where the function is called, or has returned, for so many times.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Any

from tidelog.__main__ import main


def kill_at(function: str, when: str, count: int) -> None:
    """Let the process die at a function of a module, or of a class of it: `module:Class.function`."""
    module, _, path = function.partition(":")
    *owners, name = path.split(".")
    owner: Any = import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    known, left = getattr(owner, name), [count]

    def reached(at: str) -> None:
        left[0] -= at == when
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def call(*arguments: Any, **named: Any) -> Any:
        reached("before")
        done = known(*arguments, **named)
        reached("after")
        return done

    setattr(owner, name, call)


if __name__ == "__main__":
    kill_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.exit(main(sys.argv[4:]))
