-- perf_analyzer report, profiles: microseconds as they are. Inferences/Second counts requests of
-- one input each, whatever the clients' batch size.
WITH typed AS (
    SELECT
        line,
        malformed,
        finite_text("Server Queue") AS queue_us,
        finite_text("Server Compute Input") + finite_text("Server Compute Infer")
            + finite_text("Server Compute Output") AS latency_us,
        finite_text("Inferences/Second") AS rate_rps,
        finite_text("Concurrency") AS concurrency,
        "Concurrency" IS NOT NULL AS has_concurrency,
        finite_text("Request Rate") AS offered_rps,
        "Request Rate" IS NOT NULL AS has_offered
    FROM records
)
SELECT
    line,
    NULL::VARCHAR AS request_class,
    NULL::VARCHAR AS replica,
    $client_batch_size::BIGINT AS batch_size,
    latency_us,
    NULL::DOUBLE AS deviation_us,
    NULL::BIGINT AS batches,
    queue_us,
    rate_rps,
    concurrency,
    CASE
        WHEN malformed THEN 'row: has not as many cells as the header'
        WHEN NOT (has_concurrency OR has_offered) THEN 'Concurrency, Request Rate: both missing'
        WHEN has_concurrency AND NOT coalesce(concurrency > 0, false)
            THEN 'Concurrency: must be above 0'
        WHEN has_offered AND NOT coalesce(offered_rps > 0, false)
            THEN 'Request Rate: must be above 0'
        WHEN NOT coalesce(rate_rps >= 0, false) THEN 'Inferences/Second: must be at least 0'
        WHEN NOT coalesce(queue_us >= 0, false)
            THEN 'Server Queue: must be microseconds of at least 0'
        WHEN NOT coalesce(latency_us > 0 AND latency_us < 1e15, false)
            THEN 'Server Compute Input, Infer, Output: must add up to microseconds above 0'
    END AS reason
FROM typed
