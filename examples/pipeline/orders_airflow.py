"""An Airflow DAG that runs a pipeline each night: put it in the folder of DAGs and set JOB.

Exit codes of `tidelog pipeline` (docs/pipeline-operations.md#exit-codes) and the state of the task:

- 0: success, a version was published.
- 99: skipped, like the tasks after it. Nothing had changed; `--exit-unchanged` enables this code.
- 3: failed. A guard or an expectation failed; readers keep the last version.
- 75: failed after the attempts that the job's `[retry]` allows. Airflow retries once, later.
- others: failed.
"""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

JOB = "/srv/jobs/orders.toml"

with DAG(
    "orders",
    schedule="0 3 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,  # a second run would find the published folder locked
):
    publish = BashOperator(
        task_id="publish",
        bash_command=f"tidelog pipeline --exit-unchanged {shlex.quote(JOB)}",
        skip_on_exit_code=99,
        retries=1,
        retry_delay=timedelta(minutes=15),
        execution_timeout=timedelta(hours=2),
    )
    notify = BashOperator(task_id="notify", bash_command="echo a new version of orders is published")
    publish >> notify
