-- Serving log, requests. Times are microseconds from the log's time 0 already.
-- The record itself is checked first, then what only all records together can tell.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"request_id": "JSON", "arrival_us": "JSON", "request_class": "JSON", "size": "JSON",
          "status": "JSON", "dispatch_us": "JSON", "departure_us": "JSON", "batch_id": "JSON",
          "prompt_tokens": "JSON", "output_tokens": "JSON", "first_token_us": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT
        line,
        identifier(request_id) AS request_id,
        whole(arrival_us) AS arrival_us,
        text_of(request_class) AS request_class,
        finite(size) AS size,
        text_of(status) AS status,
        whole(dispatch_us) AS dispatch_us,
        whole(departure_us) AS departure_us,
        whole(batch_id) AS batch_id,
        whole(prompt_tokens) AS prompt_tokens,
        whole(output_tokens) AS output_tokens,
        whole(first_token_us) AS first_token_us,
        CASE WHEN readable THEN coalesce(
            required('request_id', request_id, identifier(request_id) IS NOT NULL,
                'must be a whole number or a text'),
            required('arrival_us', arrival_us, whole(arrival_us) >= 0,
                'must be a whole number of at least 0'),
            required('request_class', request_class,
                list_contains($request_classes, text_of(request_class)), 'unknown request class'),
            required('size', size, finite(size) > 0, 'must be finite and above 0'),
            required('status', status, text_of(status) IN ('completed', 'shed', 'failed'),
                'must be completed, shed or failed'),
            optional('dispatch_us', dispatch_us, whole(dispatch_us) >= 0,
                'must be null or a whole number of at least 0'),
            optional('departure_us', departure_us, whole(departure_us) >= 0,
                'must be null or a whole number of at least 0'),
            optional('batch_id', batch_id, whole(batch_id) IS NOT NULL,
                'must be null or a whole number'),
            optional('prompt_tokens', prompt_tokens, whole(prompt_tokens) >= 0,
                'must be null or a whole number of at least 0'),
            optional('output_tokens', output_tokens, whole(output_tokens) >= 0,
                'must be null or a whole number of at least 0'),
            optional('first_token_us', first_token_us, whole(first_token_us) >= 0,
                'must be null or a whole number of at least 0')
        ) ELSE 'malformed JSON' END AS fault
    FROM parsed
),
-- A log measures dispatch (departure) for every completed request or for none of them.
checked AS (
    SELECT * REPLACE (coalesce(fault, CASE
        WHEN dispatch_us < arrival_us THEN 'dispatch_us: before arrival_us'
        WHEN departure_us < arrival_us THEN 'departure_us: before arrival_us'
        WHEN departure_us < dispatch_us THEN 'departure_us: before dispatch_us'
        WHEN status = 'shed' AND coalesce(dispatch_us, departure_us, batch_id) IS NOT NULL
            THEN 'status: a shed request has no dispatch_us, departure_us or batch_id'
        WHEN status = 'completed' AND dispatch_us IS NULL AND bool_or(dispatch_us IS NOT NULL) OVER ()
            THEN 'dispatch_us: missing, though the request was completed'
        WHEN status = 'completed' AND departure_us IS NULL
            AND bool_or(departure_us IS NOT NULL) OVER ()
            THEN 'departure_us: missing, though the request was completed'
    END) AS fault)
    FROM typed
)
SELECT
    line,
    request_id,
    arrival_us,
    request_class,
    NULL::VARCHAR AS replica,
    size,
    prompt_tokens,
    output_tokens,
    status,
    dispatch_us,
    first_token_us,
    departure_us,
    batch_id,
    fault AS reason
FROM checked;
