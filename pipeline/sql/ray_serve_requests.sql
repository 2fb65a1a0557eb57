-- Ray Serve, requests: the access lines of replicas or of proxies, text (three layouts) or JSON.
-- The time of a line is the end; the latency is in the text of the message, in ms.
WITH split AS (
    SELECT
        line,
        starts_with(raw, '{') AS is_json,
        CASE WHEN starts_with(raw, '{') THEN json_extract_string(TRY_CAST(raw AS JSON), [
            '$.asctime', '$.timestamp_ns', '$.message', '$.component_name', '$.deployment',
            '$.replica', '$.component_id', '$.request_id', '$.route'
        ]) END AS keyed,
        -- level time component id [request id] [route] [application] [file:line] -[-] message
        CASE WHEN NOT starts_with(raw, '{') THEN regexp_extract(
            raw,
            '^(?:\([^)]*\) )?[A-Z]+ (\S+ \S+) (\S+) (\S+)(?: ([^\s/]\S*))?(?: (/\S*))?(?: \S+)?'
            || ' (?:--|\S+\.py:\d+ -) (.*)$',
            ['stamp', 'component', 'component_id', 'request_id', 'route', 'message']
        ) END AS cells
    FROM records
),
named AS (
    SELECT
        line,
        is_json AND keyed IS NULL AS broken,
        coalesce(cells.stamp, keyed[1]) AS stamp,
        keyed[2] AS stamp_ns,
        coalesce(cells.component, keyed[5], keyed[4]) AS component,
        coalesce(cells.component, keyed[4]) AS component_name,
        coalesce(cells.component_id, keyed[6], keyed[7]) AS component_id,
        nullif(coalesce(cells.request_id, keyed[8]), '') AS request_id,
        nullif(coalesce(cells.route, keyed[9]), '') AS route,
        regexp_extract(
            coalesce(cells.message, keyed[3], ''),
            '^(?:HANDLE )?(\S+)(?: (\S+))? (OK|ERROR|CANCELLED|\d{3}) (\S+)ms$', ['method', 'route', 'status', 'ms']
        ) AS access
    FROM split
),
typed AS (
    SELECT
        *,
        component_name IN ('proxy', 'http_proxy', 'grpc_proxy') AS of_proxy,
        CASE WHEN regexp_full_match(stamp_ns, '\d{16,19}') THEN (TRY_CAST(stamp_ns AS BIGINT) // 10 + 50) // 100
            WHEN stamp_ns IS NULL THEN instant_us(stamp, $zone) END AS end_us,
        CASE WHEN regexp_full_match(access.ms, '\d{1,12}(\.\d+)?')
            THEN (TRY_CAST(access.ms AS DECIMAL(18, 3)) * 1000)::BIGINT END AS response_us,
        CASE
            WHEN access.status = 'OK' THEN 'completed'
            WHEN access.status IN ('429', '503') THEN 'shed' -- 503: too many wait already
            WHEN regexp_full_match(access.status, '[123]\d\d') THEN 'completed'
            ELSE 'failed' -- ERROR, CANCELLED, 4xx, 5xx
        END AS outcome
    FROM named
)
SELECT
    line,
    request_id,
    end_us - response_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN outcome <> 'shed' THEN end_us END AS departure_us,
    CASE
        WHEN NOT of_proxy THEN component
        WHEN starts_with(access.route, '/') THEN access.route
        ELSE route
    END AS request_class,
    CASE WHEN NOT of_proxy THEN regexp_extract(component_id, '[^#]*$') END AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    outcome AS status,
    NULL::BIGINT AS batch_id,
    CASE
        WHEN broken THEN 'malformed JSON'
        WHEN access.method = '' THEN 'not a request: not an access line'
        WHEN of_proxy <> ($component = 'proxy')
            THEN 'not a request: not of the component of options.component'
        WHEN $deployment IS NOT NULL AND component <> $deployment
            THEN 'not a request: not of the deployment of options.deployment'
        ELSE coalesce(
            required('asctime', coalesce(stamp_ns, stamp), end_us IS NOT NULL,
                'must be a date and time'),
            required('message', access.ms, response_us IS NOT NULL,
                'must end with the latency in ms')
        )
    END AS reason
FROM typed
