-- The requests whose id was seen before, by file and line.
SELECT file, line, to_json(request)::VARCHAR AS raw
FROM (
    SELECT *, row_number() OVER (PARTITION BY request_id ORDER BY file, line) AS seen
    FROM $requests
    WHERE request_id IS NOT NULL
) AS request
WHERE seen > 1;
