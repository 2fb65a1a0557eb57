-- Vidur trace, requests: seconds to microseconds from the trace's time 0. The text of a float may
-- have an exponent (5.2e-05) and 17 digits, hence a DOUBLE, whose error is far below 1 us.
WITH typed AS (
    SELECT
        line,
        malformed,
        finite_text(arrived_at) AS arrival_s,
        whole_text(num_prefill_tokens) AS prompt_tokens,
        whole_text(num_decode_tokens) AS output_tokens
    FROM records
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    TRY_CAST(round(arrival_s * 1e6) AS BIGINT) AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    NULL::BIGINT AS departure_us,
    NULL::VARCHAR AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    prompt_tokens,
    output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    CASE
        WHEN malformed THEN 'row: has not as many cells as the header'
        WHEN NOT coalesce(arrival_s BETWEEN 0 AND 3e11, false)
            THEN 'arrived_at: must be seconds of at least 0'
        WHEN prompt_tokens IS NULL OR prompt_tokens < 0
            THEN 'num_prefill_tokens: must be a whole number of at least 0'
        WHEN output_tokens IS NULL OR output_tokens < 0
            THEN 'num_decode_tokens: must be a whole number of at least 0'
    END AS reason
FROM typed
