-- Mooncake trace, requests: arrivals in whole milliseconds from the start of the trace, and tokens.
-- A row of the trace is a request that was answered and has no name.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"timestamp": "JSON", "input_length": "JSON", "output_length": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT
        * EXCLUDE (timestamp),
        timestamp AS stamp,
        CASE WHEN json_type(timestamp) IN ('BIGINT', 'UBIGINT')
            AND whole(timestamp) BETWEEN 0 AND 4102444800000 THEN whole(timestamp) END AS stamp_ms
    FROM parsed
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    stamp_ms * 1000 AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    NULL::BIGINT AS departure_us,
    NULL::VARCHAR AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    whole(input_length) AS prompt_tokens,
    whole(output_length) AS output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required('timestamp', stamp, stamp_ms IS NOT NULL,
            'must be a whole number of milliseconds, at least 0'),
        required('input_length', input_length, whole(input_length) >= 0,
            'must be a whole number of at least 0'),
        required('output_length', output_length, whole(output_length) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed JSON' END AS reason
FROM typed
