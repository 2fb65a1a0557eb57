-- Serving log as CSV, requests: cells become what they are in JSON lines, and the rest is the same
-- as in serving_log_requests.sql, which a test compares. A cell is text as it stands, `=` and all.
WITH parsed AS (
    SELECT
        line,
        NOT malformed AS readable,
        fields[1] AS request_id,
        fields[2] AS request_class,
        fields[3] AS status,
        fields[4] AS arrival_us,
        fields[5] AS size,
        fields[6] AS dispatch_us,
        fields[7] AS departure_us,
        fields[8] AS batch_id,
        fields[9] AS prompt_tokens,
        fields[10] AS output_tokens,
        fields[11] AS first_token_us
    FROM (
        SELECT line, malformed, list_transform([
            request_id,
            request_class,
            status,
            arrival_us,
            size,
            dispatch_us,
            departure_us,
            batch_id,
            prompt_tokens,
            output_tokens,
            first_token_us
        ], lambda cell, place: CASE
            WHEN cell IS NULL THEN NULL
            WHEN place NOT IN (1, 2, 3) AND regexp_full_match(cell, '-?\d{1,18}')
                THEN to_json(cell::BIGINT)
            WHEN place NOT IN (1, 2, 3) AND regexp_full_match(cell, '[-+.0-9eE]{1,30}')
                AND isfinite(TRY_CAST(cell AS DOUBLE)) THEN to_json(TRY_CAST(cell AS DOUBLE))
            ELSE to_json(cell)
        END) AS fields
        FROM records
    )
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
        ) ELSE 'row: has not as many cells as the header' END AS fault
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
