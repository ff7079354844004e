#!/bin/sh
# From messy files to typed Delta tables: a job runs on Spark twice. The first run derives everything, the second
# applies only the changes. `make demo ENGINE=spark` runs this with the tidelog of .venv, in output/spark.
set -eu
cd "$(dirname "$0")/../.."
rm -rf output/spark
mkdir -p output/spark/orders/country=DE output/spark/orders/country=FR
cd output/spark

step() {
    printf '\n==== %s\n$ %s\n' "$1" "$2"
    sh -c "$2"
}

printf 'id,customer,amount\n1,ann,1.25\n2,bob,7.00\nthree,bob,2.00\n' > orders/country=DE/monday.csv
printf 'id,customer,amount\n3,ann,0.50\n4,cem,1.999\n' > orders/country=FR/monday.csv
cat > orders.rls <<'END'
@declare order(id: int, customer: string, amount: decimal(12, 2), country: string) .
@declare total(customer: string, amount: decimal(12, 2)) .
total(?who, #sum(?amount, ?id)) :- order(?id, ?who, ?amount, _) .
END
cat > job.toml <<'END'
program = "orders.rls"
publish = "published"

[[source]]
predicate = "order"
path = "orders"
header = true
END

step 'Files partitioned by country, and a job' 'tail -n +1 orders/*/*.csv job.toml'
step 'The first run derives everything, on Spark' 'tidelog pipeline job.toml'
step 'Rejected rows' 'cat published/_rejects/1/*/*.csv'
step 'A Delta table, which any Delta reader can open' 'python -c "import deltalake, pyarrow.parquet as pq; print(pq.read_table(deltalake.DeltaTable(\"published/total\").file_uris()).to_pandas())"'
step 'Another file arrives' "printf 'id,customer,amount\n5,bob,0.75\n' > orders/country=FR/tuesday.csv"
step 'The second run applies the changes' 'tidelog pipeline job.toml'
step 'The changes' 'tidelog diff job.toml'

printf '\nDone. See docs/pipeline.md for jobs and streams, docs/published.md for the tables, docs/spark.md for sessions.\n'
