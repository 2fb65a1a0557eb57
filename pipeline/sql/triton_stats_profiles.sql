-- Triton statistics, profiles: how often a batch size ran, and the ns of its compute and of the
-- queue of its model, between two snapshots.
WITH parsed AS (
    SELECT line, unnest(from_json(
        TRY_CAST(raw AS JSON),
        '{"model": "JSON", "batch_size": "JSON", "runs": "JSON", "busy_ns": "JSON",
          "waits": "JSON", "waiting_ns": "JSON"}'
    ))
    FROM records
)
SELECT
    line,
    text_of(model) AS request_class,
    $replica::VARCHAR AS replica,
    whole(batch_size) AS batch_size,
    whole(busy_ns) / whole(runs) / 1e3 AS latency_us,
    NULL::DOUBLE AS deviation_us,
    whole(runs) AS batches,
    CASE WHEN whole(waits) > 0 THEN whole(waiting_ns) / whole(waits) / 1e3 END AS queue_us,
    NULL::DOUBLE AS rate_rps,
    NULL::DOUBLE AS concurrency,
    CASE
        WHEN coalesce(whole(batch_size) NOT BETWEEN 1 AND 2147483647, true)
            THEN 'batch_size: must be a whole number of at least 1'
        WHEN coalesce(whole(busy_ns) <= 0, true) THEN 'batch_stats: ran, but took no time'
    END AS reason
FROM parsed
