-- RAGPulse trace, requests: arrivals as texts of seconds from the start of the trace, and tokens.
-- A row of the trace is a request that was answered; session_id names a session, not a request.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"timestamp": "JSON", "input_length": "JSON", "output_length": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT * EXCLUDE (timestamp), timestamp AS stamp, seconds_us(text_of(timestamp)) AS stamp_us
    FROM parsed
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    stamp_us AS arrival_us,
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
        required('timestamp', stamp, stamp_us >= 0,
            'must be a text of seconds, at least 0'),
        required('input_length', input_length, whole(input_length) >= 0,
            'must be a whole number of at least 0'),
        required('output_length', output_length, whole(output_length) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed JSON' END AS reason
FROM typed
