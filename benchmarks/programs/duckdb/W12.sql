CREATE TEMP TABLE number AS
FROM read_csv('number.csv', header = true, auto_detect = false, delim = ',', columns = {'x': 'INTEGER'});
CREATE TEMP TABLE divisors AS
SELECT n.x, sum(f.x)::INTEGER AS total
FROM number n JOIN number f ON f.x <= n.x // 2 AND n.x % f.x = 0
GROUP BY n.x;
COPY (
    SELECT one.x, other.x FROM divisors one JOIN divisors other ON one.total = other.x AND other.total = one.x
    WHERE one.x < other.x
) TO '{output}/amicable.csv';
COPY (SELECT count(*) FROM divisors WHERE total > x) TO '{output}/abundant.csv';
