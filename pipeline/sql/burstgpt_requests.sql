-- BurstGPT, requests: seconds to microseconds from the trace's time 0. Each cell is cast once, to
-- DOUBLE: exact for whole numbers below 2^53, and NULL for what is no number. An arrival, and an
-- elapsed time of BurstGPT_3, end within 10,000 years. Zero response tokens are a failure.
WITH typed AS (
    SELECT
        line,
        malformed,
        "Model" AS request_class,
        real_number("Timestamp") AS arrival_s,
        real_number("Elapsed time") AS elapsed_s,
        "Elapsed time" IS NOT NULL AS has_elapsed,
        plain_number("Request tokens") AS prompt_tokens,
        plain_number("Response tokens") AS output_tokens
    FROM records
),
checked AS (
    SELECT *, CASE
        WHEN malformed THEN 'row: has not as many cells as the header'
        WHEN NOT coalesce(arrival_s BETWEEN 0 AND 3e11, false)
            THEN 'Timestamp: must be seconds of at least 0'
        WHEN request_class IS NULL THEN 'Model: missing'
        WHEN NOT coalesce(prompt_tokens BETWEEN 0 AND 1e15, false)
            OR prompt_tokens <> floor(prompt_tokens)
            THEN 'Request tokens: must be a whole number of at least 0'
        WHEN NOT coalesce(output_tokens BETWEEN 0 AND 1e15, false)
            OR output_tokens <> floor(output_tokens)
            THEN 'Response tokens: must be a whole number of at least 0'
        WHEN has_elapsed AND NOT coalesce(elapsed_s BETWEEN 0 AND 3e11, false)
            THEN 'Elapsed time: must be seconds of at least 0'
    END AS reason
    FROM typed
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    CASE WHEN reason IS NULL THEN round(arrival_s * 1e6)::BIGINT END AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN reason IS NULL
        THEN round(arrival_s * 1e6)::BIGINT + round(elapsed_s * 1e6)::BIGINT END AS departure_us,
    request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    TRY_CAST(prompt_tokens AS BIGINT) AS prompt_tokens,
    TRY_CAST(output_tokens AS BIGINT) AS output_tokens,
    CASE WHEN output_tokens = 0 THEN 'failed' ELSE 'completed' END AS status,
    NULL::BIGINT AS batch_id,
    reason
FROM checked
