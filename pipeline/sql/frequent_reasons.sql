SELECT count(*) AS rows, reason, min(line) AS first_line
FROM rejected
WHERE file = $file
GROUP BY reason
ORDER BY rows DESC, first_line
LIMIT $most;
