-- Splitwise profile: the time of one phase of one run, milliseconds to microseconds.
WITH typed AS (
    SELECT
        line,
        malformed,
        model,
        hardware,
        whole_text(prompt_size) AS prompt_tokens,
        whole_text(token_size) AS output_tokens,
        whole_text(batch_size) AS batch_size,
        whole_text(tensor_parallel) AS tensor_parallel,
        finite_text(CASE $phase WHEN 'prompt' THEN prompt_time ELSE token_time END) AS latency_ms
    FROM records
)
SELECT
    line,
    model || '_p' || prompt_tokens || '_t' || output_tokens AS request_class,
    hardware || '_tp' || tensor_parallel AS replica,
    batch_size,
    latency_ms * 1000 AS latency_us,
    NULL::DOUBLE AS deviation_us,
    1::BIGINT AS batches,
    NULL::DOUBLE AS queue_us,
    NULL::DOUBLE AS rate_rps,
    NULL::DOUBLE AS concurrency,
    CASE
        WHEN malformed THEN 'row: has not as many cells as the header'
        WHEN model IS NULL THEN 'model: missing'
        WHEN hardware IS NULL THEN 'hardware: missing'
        WHEN NOT coalesce(prompt_tokens >= 0, false)
            THEN 'prompt_size: must be a whole number of at least 0'
        WHEN NOT coalesce(output_tokens >= 0, false)
            THEN 'token_size: must be a whole number of at least 0'
        WHEN NOT coalesce(batch_size BETWEEN 1 AND 1000000, false)
            THEN 'batch_size: must be a whole number in 1 .. 1000000'
        WHEN NOT coalesce(tensor_parallel >= 1, false)
            THEN 'tensor_parallel: must be a whole number of at least 1'
        WHEN NOT coalesce(latency_ms > 0 AND latency_ms < 1e12, false)
            THEN $phase || '_time: must be milliseconds above 0'
    END AS reason
FROM typed
