#!/bin/sh
# The smallest pipeline: a file of edges, two rules, a job that names both. It runs on Spark, twice: first
# everything is derived, then only what a new edge changes. `make demo ENGINE=spark` runs this with the tidelog
# of .venv, in output/spark.
set -eu
cd "$(dirname "$0")/../.."
rm -rf output/spark
mkdir -p output/spark
cd output/spark

step() {
    printf '\n==== %s\n$ %s\n' "$1" "$2"
    sh -c "$2"
}

cat > edge.csv <<'END'
from,to
a,b
b,c
END
cat > reach.rls <<'END'
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
END
cat > job.toml <<'END'
program = "reach.rls"
publish = "published"

[[source]]
predicate = "edge"
path = "edge.csv"
header = true
END

step 'The job: data, rules, and what is published where' 'tail -n +1 edge.csv reach.rls job.toml'
step 'The first run derives everything, on Spark' 'tidelog pipeline job.toml'
step 'One edge more' 'echo c,d >> edge.csv'
step 'The second run works in what has changed' 'tidelog pipeline job.toml'
step 'What has changed' 'tidelog diff job.toml'

printf '\nDone. docs/pipeline.md is about jobs, streams and versions, docs/spark.md about sessions and clusters.\n'
