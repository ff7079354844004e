#!/bin/sh
# The main job in a minute: three programs, their tables, what the rules did, and a picture of a plan.
# `make demo` runs this with the tidelog of .venv; everything is written to output/.
set -eu
cd "$(dirname "$0")/.."

step() {
    printf '\n==== %s\n$ %s\n\n' "$1" "$2"
    sh -c "$2"
}

mkdir -p output
step 'A family tree: all that follows from eight facts, and what each rule did' \
    'tidelog run examples/family.rls --stats'
step 'A question about it' \
    'tidelog query examples/family.rls "cousin(dora, ?x)"'
step 'A graph from a CSV file: reachability, negation, aggregates' \
    'tidelog query examples/graph/flights.rls "network(?airline, ?routes, ?km, ?minutes)"'
step 'The same, in files' \
    'tidelog run examples/graph/flights.rls --output output/flights && cat output/flights/stranded.csv'
step 'RDF from Turtle, with the RDFS rules that come with tidelog' \
    'tidelog run examples/rdf/zoo.rls'
step 'A picture of how the family tree is derived' \
    'tidelog plan examples/family.rls --run --format html --output output/plan.html'

printf '\nDone. Open output/plan.html in a browser; the files are in output/flights.\n'
printf 'README.md goes through these examples; docs/index.md has the rest.\n'
