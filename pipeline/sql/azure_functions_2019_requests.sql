-- Azure Functions 2019, requests that the reader has drawn; times are microseconds from day 1. A
-- record with a `fault` is a function whose row could not be read.
WITH parsed AS (
    SELECT line, unnest(from_json(
        TRY_CAST(raw AS JSON),
        '{"fault": "VARCHAR", "arrival_us": "BIGINT", "departure_us": "BIGINT", "class": "VARCHAR",
          "class_by": "VARCHAR"}'
    ))
    FROM records
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    departure_us,
    CASE class_by
        WHEN 'trigger' THEN class
        WHEN 'app' THEN 'a' || left(md5(class), 12)
        WHEN 'function' THEN 'f' || left(md5(class), 12)
    END AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    fault AS reason
FROM parsed
