-- Azure LLM trace, requests: arrivals and tokens. A timestamp has up to 9 fraction digits or none,
-- and Z, an offset, or neither: then it is in $zone. A row is a request that was answered. Instants
-- in UTC, as nearly all are, are cast as they are, which is faster (the cast overlooks offsets).
WITH typed AS (
    SELECT
        line,
        malformed,
        CASE
            WHEN regexp_full_match(
                "TIMESTAMP", '\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,9})?(Z|\+00:00)'
            ) THEN (epoch_ns(TRY_CAST("TIMESTAMP" AS TIMESTAMP_NS)) + 500) // 1000
            ELSE instant_us("TIMESTAMP", $zone)
        END AS arrival_us,
        whole_text("ContextTokens") AS prompt_tokens,
        whole_text("GeneratedTokens") AS output_tokens
    FROM records
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
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
        WHEN arrival_us IS NULL THEN 'TIMESTAMP: not a date and time'
        WHEN prompt_tokens IS NULL OR prompt_tokens < 0
            THEN 'ContextTokens: must be a whole number of at least 0'
        WHEN output_tokens IS NULL OR output_tokens < 0
            THEN 'GeneratedTokens: must be a whole number of at least 0'
    END AS reason
FROM typed
