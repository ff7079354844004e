-- Both nodes in one integer: nodes are below 32,768.
CREATE TEMP TABLE parent AS FROM edges('parent.tsv');

WITH RECURSIVE same(pair) AS (
    SELECT a.y << 15 | b.y FROM parent AS a JOIN parent AS b ON a.x = b.x
    UNION
    SELECT a.y << 15 | b.y
    FROM same JOIN parent AS a ON pair >> 15 = a.x JOIN parent AS b ON pair & 32767 = b.x
)
SELECT count(*) FROM same;
