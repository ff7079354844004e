CREATE TEMP TABLE edge AS FROM edges('edge.tsv');

WITH RECURSIVE path(x, y) AS (
    FROM edge
    UNION
    SELECT path.x, edge.y FROM path JOIN edge ON path.y = edge.x
)
SELECT count(*) FROM path;
