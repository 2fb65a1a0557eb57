-- Envoy access log, requests. START_TIME is the arrival; DURATION is in ms, to the last byte sent.
-- `-` stands for nothing. A shed request was answered at once, which is no departure.
WITH split AS (
    SELECT
        line,
        $json_lines AND starts_with(raw, '{') AS is_json,
        CASE WHEN NOT ($json_lines AND starts_with(raw, '{'))
            THEN regexp_extract(raw, $pattern, $names) END AS cells,
        CASE WHEN $json_lines AND starts_with(raw, '{')
            THEN json_extract_string(TRY_CAST(raw AS JSON), $pointers) END AS keyed
    FROM records
),
named AS (
    SELECT
        line,
        CASE
            WHEN is_json AND keyed IS NULL THEN 'malformed JSON'
            WHEN NOT is_json AND cells.whole = '' THEN 'line: not as the format says'
        END AS fault,
        nullif(nullif(coalesce(cells.start_time, keyed[1]), '-'), '') AS start_time,
        nullif(nullif(coalesce(cells.duration, keyed[2]), '-'), '') AS duration,
        nullif(nullif(coalesce(cells.response_code, keyed[3]), '-'), '') AS response_code,
        nullif(nullif(coalesce(cells.response_flags, keyed[4]), '-'), '') AS response_flags,
        nullif(nullif(coalesce(cells.upstream_host, keyed[5]), '-'), '') AS upstream_host,
        nullif(nullif(coalesce(cells.request_id, keyed[6]), '-'), '') AS request_id,
        nullif(nullif(coalesce(cells.path, keyed[7]), '-'), '') AS path,
        nullif(nullif(coalesce(cells.request_class, keyed[8]), '-'), '') AS request_class
    FROM split
),
typed AS (
    SELECT
        line,
        fault,
        start_time,
        duration,
        response_code,
        CASE WHEN regexp_full_match(start_time, '\d{9,11}(\.\d{1,9})?') THEN seconds_us(start_time)
            ELSE instant_us(start_time, $zone) END AS start_us,
        CASE WHEN regexp_full_match(duration, '\d{1,12}(\.\d+)?')
            THEN (TRY_CAST(duration AS DECIMAL(18, 3)) * 1000)::BIGINT END AS duration_us,
        CASE WHEN regexp_full_match(response_code, '\d{1,3}') THEN response_code::BIGINT END AS code,
        list_filter(string_split(coalesce(response_flags, ''), ','), lambda flag: flag <> '')
            AS flags,
        regexp_replace(upstream_host, '^[a-z]+://', '') AS replica,
        request_id,
        regexp_extract(path, '^[^?#]*') AS route,
        request_class
    FROM named
),
judged AS (
    SELECT
        *,
        -- Overflow, rate limit, overload manager; 503 without a flag: the upstream's own refusal.
        CASE
            WHEN list_has_any(flags, ['UO', 'RL', 'OM']) OR code = 429 THEN 'shed'
            WHEN code = 503 AND len(flags) = 0 THEN 'shed'
            WHEN code BETWEEN 100 AND 399 AND list_has_all(['DI'], flags) THEN 'completed'
            WHEN code IS NOT NULL THEN 'failed'
        END AS status
    FROM typed
)
SELECT
    line,
    request_id,
    start_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN status <> 'shed' THEN start_us + duration_us END AS departure_us,
    coalesce(request_class, route) AS request_class,
    replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    status,
    NULL::BIGINT AS batch_id,
    coalesce(
        fault,
        required('start_time', start_time, start_us IS NOT NULL,
            'must be a date and time or Unix seconds'),
        required('response_code', response_code, code IS NOT NULL, 'must be a number of 3 digits'),
        optional('duration', duration, duration_us IS NOT NULL, 'must be milliseconds'),
        CASE
            WHEN duration IS NULL AND status = 'completed'
                THEN 'duration: missing, though the request was completed'
            WHEN NOT regexp_matches(coalesce(route, ''), $route_pattern)
                THEN 'not a request: its path is not one of options.paths'
        END
    ) AS reason
FROM judged
