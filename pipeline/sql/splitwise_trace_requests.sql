-- Splitwise trace, requests: seconds to microseconds from the simulator's time 0.
WITH typed AS (
    SELECT
        line,
        malformed,
        request_id,
        seconds_us(arrival_timestamp) AS arrival_us,
        whole_text(batch_size) AS together,
        whole_text(prompt_size) AS prompt_tokens,
        whole_text(token_size) AS output_tokens
    FROM records
)
SELECT
    line,
    request_id,
    arrival_us,
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
        WHEN request_id IS NULL THEN 'request_id: missing'
        WHEN arrival_us IS NULL OR arrival_us < 0
            THEN 'arrival_timestamp: must be seconds of at least 0'
        WHEN together IS DISTINCT FROM 1
            THEN 'batch_size: must be 1; the tokens of several requests are not stated'
        WHEN prompt_tokens IS NULL OR prompt_tokens < 0
            THEN 'prompt_size: must be a whole number of at least 0'
        WHEN output_tokens IS NULL OR output_tokens < 0
            THEN 'token_size: must be a whole number of at least 0'
    END AS reason
FROM typed
