#!/bin/sh
# The company of `make demo` on Spark: the same rules and the same answers, by executors.
# `make demo ENGINE=spark` runs this with the tidelog of .venv; everything is written to output/.
set -eu
cd "$(dirname "$0")/../.."

step() {
    printf '\n==== %s\n$ %s\n\n' "$1" "$2"
    sh -c "$2"
}

program=examples/company/company.rls
# So few facts would be derived on the driver, without Spark: the strategies are forced.
spark='--engine spark --conf tidelog.strategy=executor-fixpoint,iterated-joins'

mkdir -p output
rm -rf output/spark output/columnar
step 'How each stratum is derived on Spark' \
    "tidelog plan $program $spark | sed -n '/^on Spark/,\$p'"
step 'Everything derived, by executors, and what each rule did' \
    "tidelog run $program $spark --output output/spark --format csv --stats"
step 'The same in one process' \
    "tidelog run $program --output output/columnar --format csv"
for file in output/columnar/*.csv; do
    sort "$file" > output/expected
    sort "output/spark/${file##*/}" | cmp - output/expected
done
rm output/expected
echo 'the same facts'

printf '\nDone. docs/spark.md has the rest: strategies, sessions, clusters. docs/pipeline.md is about jobs and streams.\n'
