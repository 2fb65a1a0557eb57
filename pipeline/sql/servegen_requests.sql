-- ServeGen, requests that the reader has drawn; times are microseconds from the start of the trace.
-- A record with a `fault` is a window whose row could not be read.
WITH parsed AS (
    SELECT line, unnest(from_json(
        TRY_CAST(raw AS JSON),
        '{"fault": "VARCHAR", "arrival_us": "BIGINT", "prompt_tokens": "BIGINT",
          "output_tokens": "BIGINT"}'
    ))
    FROM records
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    NULL::BIGINT AS departure_us,
    $client AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    prompt_tokens,
    output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    fault AS reason
FROM parsed
