CREATE TEMP TABLE log AS
FROM read_csv('log.csv', header = true, auto_detect = false, delim = ',', quote = '"', escape = '"', columns = {
    'number': 'INTEGER', 'text': 'VARCHAR'
});
CREATE TEMP TABLE request AS
SELECT
    number,
    time::DATE AS day,
    hour(time) AS hour,
    time,
    host,
    page,
    status,
    user,
    CASE WHEN took LIKE '%ms' THEN took[:-3]::DECIMAL(9, 0) / 1000 ELSE took[:-2]::DOUBLE END AS seconds
FROM (
    SELECT
        number,
        try_cast(words[1] AS TIMESTAMP) AS time,
        words[2] AS host,
        words[4][2:] AS page,
        words[5][8:] AS status,
        words[6][6:] AS user,
        words[7][6:] AS took
    FROM (
        SELECT number, string_split(text, ' ') AS words
        FROM log
        WHERE regexp_matches(text, '^[^ ]+ web[0-9]+ (GET|POST) /')
    )
)
WHERE time IS NOT NULL;
CREATE TEMP TABLE hits AS SELECT page, count(*) AS hits FROM request GROUP BY page;
COPY (SELECT day, hour, count(DISTINCT user) FROM request GROUP BY day, hour) TO '{output}/users.csv';
COPY (SELECT day, hour, avg(seconds), max(seconds) FROM request GROUP BY day, hour) TO '{output}/took.csv';
COPY (SELECT page, hits FROM hits QUALIFY dense_rank() OVER (ORDER BY hits DESC) <= 10) TO '{output}/best.csv';
COPY (
    SELECT regexp_replace(page, '[0-9]+', 'N', 'g') AS kind, sum(hits)::BIGINT FROM hits GROUP BY kind
) TO '{output}/kinds.csv';
COPY (SELECT user, min(time), max(time) FROM request GROUP BY user) TO '{output}/visits.csv';
COPY (SELECT host, count(*) FROM request WHERE status LIKE '5%' GROUP BY host) TO '{output}/failures.csv';
COPY (SELECT number, seconds FROM request WHERE seconds >= 90) TO '{output}/slow.csv';
COPY (SELECT (SELECT count(*) FROM log) - (SELECT count(*) FROM request)) TO '{output}/unread.csv';
