-- TorchServe, requests: the access lines, in access_log.log or among others in ts_log.log.
-- The time of a line is the end of the request, in the server's own zone; durations are whole ms.
WITH matched AS (
    SELECT
        line,
        raw,
        regexp_extract(
            raw,
            '^(?:[\w.-]+ +\| +)?(\S{10}[ T]\S+)(?: \[[A-Z]+ *\] (\S+) ACCESS_LOG)? - /?\S* '
            || '"[A-Z]+ (\S+)[^"]*" (\S+) (\S+)$',
            ['stamp', 'thread', 'target', 'status', 'duration']
        ) AS cells
    FROM records
),
typed AS (
    SELECT
        line,
        raw,
        cells.*,
        instant_us(cells.stamp, $zone) AS end_us,
        CASE WHEN regexp_full_match(cells.duration, '\d{1,9}')
            THEN cells.duration::BIGINT * 1000 END AS response_us,
        CASE WHEN regexp_full_match(cells.status, '\d{3}') THEN cells.status::BIGINT END AS code,
        regexp_extract(
            cells.target,
            '^(?:/(?:predictions|explanations|wfpredict)/([^/?]+)'
            || '|/v1/models/([^/:?]+):(?:predict|explain)'
            || '|/v2/models/([^/?]+)(?:/versions/[^/?]+)?/(?:infer|explain))',
            ['plain', 'first', 'second']
        ) AS model,
        regexp_matches(cells.target, '^/(?:invocations|predictions)/?(?:\?|$)') AS nameless
    FROM matched
),
judged AS (
    SELECT
        *,
        nullif(concat(model.plain, model.first, model.second), '') AS request_class,
        CASE
            WHEN code IN (429, 503) THEN 'shed' -- 503: the queue of the model is full
            WHEN code BETWEEN 100 AND 399 THEN 'completed'
            WHEN code IS NOT NULL THEN 'failed'
        END AS outcome
    FROM typed
)
SELECT
    line,
    NULL::VARCHAR AS request_id,
    end_us - response_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN outcome <> 'shed' THEN end_us END AS departure_us,
    request_class,
    CASE WHEN regexp_matches(thread, '^(?:W-|BackendWorker-)') THEN thread END AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    outcome AS status,
    NULL::BIGINT AS batch_id,
    CASE
        WHEN stamp = '' AND regexp_matches(raw, ' (?:TS_METRICS|MODEL_METRICS) - |\[METRICS\]| - \w+\.\w+:\S+\|#')
            THEN 'not a request: a metrics line, not an access line'
        WHEN stamp = '' THEN 'not a request: not an access line'
        WHEN request_class IS NULL AND NOT nameless
            THEN 'not a request: its path asks for no prediction'
        ELSE coalesce(
            required('time', stamp, end_us IS NOT NULL, 'must be a date and time'),
            required('status', status, code IS NOT NULL, 'must be a number of 3 digits'),
            required('duration', duration, response_us IS NOT NULL, 'must be whole milliseconds')
        )
    END AS reason
FROM judged
