"""Tasks that derive a program together, each on its part of the facts, and exchange what is new.

Nothing here knows where tasks run: in threads, in processes of one machine (`processes`), or in the barrier
tasks of a Spark stage (`spark.worker.BarrierTask`). How a task is used:

    listener = Listener(host)                       # bound to this address; all learn `listener.address`
    mesh = listener.join(number, addresses, secret, attempt)    # addresses in the order of the numbers
    with mesh:
        task = ExchangeTask(program, mesh, seed=…)  # the same program and seed everywhere
        task.load("edge", batches)                  # any part of the given facts, as `data.columns.Batch`
        task.run()                                  # all that follows from the facts of all tasks
        relation = task.relation("path")            # this task's part: disjoint from those of the others

Begin with `ExchangeTask.run` in `tasks`. `ids` has what tasks send one another, `sockets` the connections
between them, `owner_kernels` the loops over rows. How a program is divided is said by `rewrite.localise`.

- `secret` are random bytes that only the tasks of the run know; `attempt` is any text that is another one
  when the run is tried again, so that tasks of an earlier attempt are refused. With `certificate=`, made once
  for all tasks by `make_certificate()`, connections are encrypted.
- Facts of the program itself are loaded by task 0; imports and exports are ignored.
- The seed must be another one in each attempt: `Collision` says that two values have the same hash. `Lost`
  says that a task is gone. Both are errors of an attempt, not of the program or the data; all others would
  happen again, and are raised by all tasks, with the diagnostics of the task that has met them.
- `timeout`, `max_facts` (of all tasks together) and Ctrl-C hold as in one process. A program that cannot be
  divided is a `ProgramError` with the rule. `equality.distributed` and `temporal.distributed` have tasks for
  programs with equality, and with facts that hold at times.
- `relation` gives columns as `Relation.coded` has them; `task.plan.describe()` says where facts lie and why.

What is imported: the engine and what lies below it. The columnar engine is used as it is, not through a
protocol: values go from one dictionary to another by kernels that know how it keeps them.
"""

from tidelog.engine.exchange.ids import Collision
from tidelog.engine.exchange.sockets import Listener, Lost, Mesh, make_certificate
from tidelog.engine.exchange.tasks import ExchangeTask

__all__ = ["Collision", "ExchangeTask", "Listener", "Lost", "Mesh", "make_certificate"]
