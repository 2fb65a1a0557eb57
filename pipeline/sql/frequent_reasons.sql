SELECT count(*) AS rows, reason, min(line) AS first_line
FROM rejects
WHERE source = $source AND file = $file
GROUP BY reason
ORDER BY rows DESC, first_line
LIMIT $most;
