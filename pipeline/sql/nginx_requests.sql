-- nginx access log, requests. A line is written at the end of a request: arrival is that instant
-- less the response time. Of several tries the times are summed, and the last one's address stays.
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
        nullif(nullif(coalesce(cells.msec, keyed[1]), '-'), '') AS msec,
        nullif(nullif(coalesce(cells.time_iso8601, keyed[2]), '-'), '') AS time_iso8601,
        nullif(nullif(coalesce(cells.time_local, keyed[3]), '-'), '') AS time_local,
        nullif(nullif(coalesce(cells.request_time, keyed[4]), '-'), '') AS request_time,
        nullif(nullif(coalesce(cells.upstream_response_time, keyed[5]), '-'), '') AS upstream_time,
        nullif(nullif(coalesce(cells.upstream_addr, keyed[6]), '-'), '') AS upstream_addr,
        nullif(nullif(coalesce(cells.status, keyed[7]), '-'), '') AS status_cell,
        nullif(nullif(coalesce(cells.request_id, keyed[8]), '-'), '') AS request_id,
        nullif(nullif(coalesce(cells.uri, keyed[9]), '-'), '') AS uri,
        nullif(nullif(coalesce(cells.request, keyed[10]), '-'), '') AS request,
        nullif(nullif(coalesce(cells.request_class, keyed[11]), '-'), '') AS request_class
    FROM split
),
tried AS (
    SELECT
        *,
        list_filter(
            regexp_split_to_array(coalesce(upstream_time, ''), ', | : '),
            lambda cell: cell NOT IN ('', '-')
        ) AS tries
    FROM named
),
typed AS (
    SELECT
        * EXCLUDE (uri, request, upstream_addr),
        coalesce(
            CASE WHEN regexp_full_match(msec, '\d{9,11}(\.\d{1,6})?') THEN seconds_us(msec) END,
            instant_us(time_iso8601, $zone),
            epoch_us(try_strptime(time_local, '%d/%b/%Y:%H:%M:%S %z'))
        ) AS end_us,
        CASE WHEN regexp_full_match(request_time, '\d{1,9}(\.\d{1,6})?')
            THEN seconds_us(request_time) END AS request_us,
        CASE WHEN len(tries) > 0 AND len(list_filter(
            tries, lambda cell: NOT regexp_full_match(cell, '\d{1,9}(\.\d{1,6})?')
        )) = 0 THEN TRY_CAST(list_sum(list_transform(tries, lambda cell: seconds_us(cell))) AS BIGINT)
        END AS tries_us,
        CASE WHEN regexp_full_match(status_cell, '\d{3}') THEN status_cell::BIGINT END AS code,
        nullif(regexp_split_to_array(upstream_addr, ', | : ')[-1], '-') AS replica,
        regexp_extract(coalesce(uri, split_part(request, ' ', 2)), '^[^?#]*') AS route
    FROM tried
),
judged AS (
    SELECT
        *,
        -- A request that no upstream took has the response time of nginx alone.
        CASE WHEN $upstream THEN coalesce(tries_us, request_us) ELSE request_us END AS response_us,
        CASE
            WHEN code IN (429, 503) THEN 'shed'
            WHEN code BETWEEN 100 AND 399 THEN 'completed'
            WHEN code IS NOT NULL THEN 'failed' -- 499: the client was gone; 000: no answer
        END AS status
    FROM typed
)
SELECT
    line,
    request_id,
    end_us - response_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN status <> 'shed' THEN end_us END AS departure_us,
    coalesce(request_class, nullif(route, '')) AS request_class,
    replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    status,
    NULL::BIGINT AS batch_id,
    coalesce(
        fault,
        required('msec', coalesce(msec, time_iso8601, time_local), end_us IS NOT NULL,
            'must be Unix seconds, or time_iso8601 or time_local a date and time'),
        required('request_time', request_time, request_us IS NOT NULL, 'must be seconds'),
        CASE WHEN len(tries) > 0 AND tries_us IS NULL
            THEN 'upstream_response_time: must be seconds, of each try' END,
        required('status', status_cell, code IS NOT NULL, 'must be a number of 3 digits'),
        CASE WHEN NOT regexp_matches(coalesce(route, ''), $route_pattern)
            THEN 'not a request: its path is not one of options.paths' END
    ) AS reason
FROM judged
