CREATE TEMP TABLE product AS
FROM read_csv('product.csv', header = true, auto_detect = false, delim = ',', columns = {'part': 'INTEGER'});
CREATE TEMP TABLE uses AS
FROM read_csv('uses.csv', header = true, auto_detect = false, delim = ',', columns = {
    'part': 'INTEGER', 'place': 'INTEGER', 'piece': 'INTEGER', 'amount': 'DOUBLE'
});
CREATE TEMP TABLE weighs AS
FROM read_csv('weighs.csv', header = true, auto_detect = false, delim = ',', columns = {
    'part': 'INTEGER', 'weight': 'DOUBLE'
});
CREATE TEMP TABLE parts AS
WITH RECURSIVE parts AS (
    SELECT part AS top, part, 1.0::DOUBLE AS amount FROM product
    UNION ALL
    SELECT top, piece, parts.amount * uses.amount FROM parts JOIN uses USING (part)
)
FROM parts;
COPY (SELECT part, sum(amount) FROM parts GROUP BY part) TO '{output}/needed.csv';
COPY (SELECT top, sum(amount * weight) FROM parts JOIN weighs USING (part) GROUP BY top) TO '{output}/weight.csv';
