#!/bin/sh
# The main use in half a minute: the facts and rules of a company change, and the derived facts are maintained.
# `make demo` runs this with the tidelog of .venv; everything is written to output/.
set -eu
cd "$(dirname "$0")/.."

step() {
    printf '\n==== %s\n$ %s\n\n' "$1" "$2"
    sh -c "$2"
}

mkdir -p output
rm -rf output/deltas output/plan.html
step 'Facts and rules change: the net change, and the time of deriving everything again' \
    'python examples/company/demo.py'
step 'The same changes from the command line' \
    'tidelog stream examples/company/company.rls examples/company/year.changes --deltas output/deltas'
step 'The facts that the fourth change added to `alarm`' \
    'cat output/deltas/4/alarm.added.csv'
step 'A query' \
    'tidelog query examples/company/company.rls "alarm(?person, ?folder), reports_to(?person, ?superior)"'
step 'A page with the dependencies and query plans' \
    'tidelog plan examples/company/company.rls --run --format html --output output/plan.html'

printf '\nDone. Open output/plan.html in a browser; the delta of each change is in output/deltas.\n'
printf 'README.md has a short tour; docs/index.md lists all pages.\n'
