CREATE TEMP TABLE account AS
FROM read_csv('account.csv', header = true, auto_detect = false, delim = ',', columns = {
    'account': 'INTEGER', 'kind': 'VARCHAR', 'balance': 'DOUBLE', 'deposit': 'DOUBLE'
});
CREATE TEMP TABLE rate AS
FROM read_csv('rate.csv', header = true, auto_detect = false, delim = ',', columns = {
    'kind': 'VARCHAR', 'year': 'INTEGER', 'rate': 'DOUBLE'
});
CREATE TEMP TABLE balances AS
WITH RECURSIVE balances AS (
    SELECT account, kind, 0 AS year, balance, deposit FROM account
    UNION ALL
    SELECT account, kind, year + 1, balance * (1 + rate) + deposit, deposit
    FROM balances JOIN rate USING (kind, year)
)
SELECT account, kind, year, balance FROM balances;
COPY (SELECT kind, year, sum(balance) FROM balances GROUP BY kind, year) TO '{output}/total.csv';
COPY (SELECT account, balance FROM balances WHERE year = 30) TO '{output}/final.csv';
