#!/bin/sh
# The main job in half a minute: a company's facts and rules change, and what follows from them is kept right.
# `make demo` runs this with the tidelog of .venv; everything is written to output/.
set -eu
cd "$(dirname "$0")/.."

step() {
    printf '\n==== %s\n$ %s\n\n' "$1" "$2"
    sh -c "$2"
}

mkdir -p output
rm -rf output/deltas output/plan.html
step 'Facts and rules change: the net effect, and the time beside deriving anew' \
    'python examples/company/demo.py'
step 'The same changes from the command line' \
    'tidelog stream examples/company/company.rls examples/company/year.changes --deltas output/deltas'
step 'What the fourth of them added to `alarm`' \
    'cat output/deltas/4/alarm.added.csv'
step 'A query' \
    'tidelog query examples/company/company.rls "alarm(?person, ?folder), reports_to(?person, ?superior)"'
step 'A picture of how all this is derived' \
    'tidelog plan examples/company/company.rls --run --format html --output output/plan.html'

printf '\nDone. Open output/plan.html in a browser; what each change did is in output/deltas.\n'
printf 'README.md has a tour of five minutes; docs/index.md has the rest.\n'
