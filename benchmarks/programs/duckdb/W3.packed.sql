-- Both nodes in one integer: nodes are below 32,768.
CREATE TEMP TABLE edge AS FROM edges('edge.tsv');

WITH RECURSIVE path(pair) AS (
    SELECT x << 15 | y FROM edge
    UNION
    SELECT pair >> 15 << 15 | edge.y FROM path JOIN edge ON pair & 32767 = edge.x
)
SELECT count(*) FROM path;
