CREATE TEMP TABLE parent AS FROM edges('parent.tsv');

WITH RECURSIVE same(x, y) AS (
    SELECT a.y, b.y FROM parent AS a JOIN parent AS b ON a.x = b.x
    UNION
    SELECT a.y, b.y FROM same JOIN parent AS a ON same.x = a.x JOIN parent AS b ON same.y = b.x
)
SELECT count(*) FROM same;
