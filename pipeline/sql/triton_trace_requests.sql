-- Triton trace, requests: the events of one id, in ns of a monotonic clock. Waiting is from
-- REQUEST_START to COMPUTE_START, service from there to COMPUTE_END. A request without compute (an
-- ensemble as a whole, an answer from the cache) departs at REQUEST_END and has no dispatch.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"id": "JSON", "request_id": "JSON", "parent_id": "JSON", "model_name": "JSON",
          "twice": "JSON", "stamps": {"REQUEST_START": "JSON", "COMPUTE_START": "JSON",
            "COMPUTE_END": "JSON", "REQUEST_END": "JSON"}}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT
        *,
        coalesce(whole(parent_id), 0) <> 0 AS step,
        CASE WHEN whole(stamps.REQUEST_START) BETWEEN 1 AND 4102444800000000000
            THEN (whole(stamps.REQUEST_START) + 500) // 1000 END AS start_us,
        CASE WHEN whole(stamps.COMPUTE_START) BETWEEN 1 AND 4102444800000000000
            THEN (whole(stamps.COMPUTE_START) + 500) // 1000 END AS compute_us,
        CASE WHEN whole(stamps.COMPUTE_END) BETWEEN 1 AND 4102444800000000000
            THEN (whole(stamps.COMPUTE_END) + 500) // 1000 END AS computed_us,
        CASE WHEN whole(stamps.REQUEST_END) BETWEEN 1 AND 4102444800000000000
            THEN (whole(stamps.REQUEST_END) + 500) // 1000 END AS end_us
    FROM parsed
)
SELECT
    line,
    -- the steps of an ensemble share the request id that the client gave
    CASE WHEN NOT step AND text_of(request_id) <> '' THEN text_of(request_id)
        ELSE 'trace ' || identifier(id) END AS request_id,
    start_us AS arrival_us,
    compute_us AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    coalesce(computed_us, end_us) AS departure_us,
    text_of(model_name) AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required('id', id, identifier(id) IS NOT NULL, 'must be a whole number'),
        required('model_name', model_name, text_of(model_name) IS NOT NULL, 'must be a text'),
        text_of(twice) || ': more than once',
        required('REQUEST_START', stamps.REQUEST_START, start_us IS NOT NULL, 'must be ns above 0'),
        required('REQUEST_END', stamps.REQUEST_END, end_us IS NOT NULL, 'must be ns above 0'),
        optional('COMPUTE_START', stamps.COMPUTE_START, compute_us IS NOT NULL,
            'must be ns above 0'),
        optional('COMPUTE_END', stamps.COMPUTE_END, computed_us IS NOT NULL, 'must be ns above 0'),
        CASE WHEN (compute_us IS NULL) <> (computed_us IS NULL)
            THEN 'COMPUTE_END: comes with COMPUTE_START, or not at all' END
    ) ELSE 'malformed record' END AS reason
FROM typed
