CREATE TEMP TABLE line AS
SELECT DISTINCT id, customer, month(day) AS month, product, quantity * price AS value
FROM read_csv('orders.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', columns = {
    'id': 'INTEGER', 'customer': 'VARCHAR', 'day': 'DATE', 'product': 'VARCHAR', 'quantity': 'SMALLINT', 'price': '{price}'
});
CREATE TEMP TABLE customers AS
FROM read_csv('customers.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', columns = {
    'customer': 'VARCHAR', 'country': 'VARCHAR', 'email': 'VARCHAR'
});
CREATE TEMP TABLE ordered AS SELECT customer, count(*) AS orders FROM line GROUP BY customer;
COPY (
    SELECT country, month, sum(value)
    FROM line JOIN (SELECT DISTINCT customer, country FROM customers) USING (customer)
    GROUP BY country, month
) TO '{output}/revenue.csv';
COPY (SELECT product, max(value) FROM line GROUP BY product) TO '{output}/dearest.csv';
COPY ordered TO '{output}/ordered.csv';
COPY (SELECT DISTINCT customer FROM customers ANTI JOIN ordered USING (customer)) TO '{output}/silent.csv';
COPY (SELECT DISTINCT customer, lower(split_part(email, '@', 2)) FROM customers) TO '{output}/domain.csv';
