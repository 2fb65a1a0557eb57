-- Text Generation Inference, requests: the lines "Success", text or JSON, and the refusals.
-- Durations are as Rust prints them, each with its own unit; they are added up in nanoseconds and
-- rounded once. arrival = line - total; dispatch = line - (total - validation - queue).
WITH cleaned AS ( -- without the colors of a terminal and the service name of docker compose
    SELECT
        line,
        CASE WHEN contains(raw, '\x1b[') OR contains(raw[1:64], ' | ')
            THEN regexp_replace(raw, '^[\w.-]+ +\| +|\\x1b\[[0-9;]*m', '', 'g')
            ELSE raw END AS raw,
        starts_with(raw, '{') AS is_json
    FROM records
),
split AS (
    SELECT
        line,
        raw,
        is_json,
        CASE WHEN is_json THEN json_extract_string(TRY_CAST(raw AS JSON), [
            '$.timestamp', '$.level', '$.message', '$.fields.message', '$.span.total_time',
            '$.span.validation_time', '$.span.queue_time', '$.span.inference_time',
            '$.span.time_per_token', '$.spans[0].trace_id'
        ]) END AS keyed,
        CASE WHEN NOT is_json
            THEN regexp_extract(raw[1:64], '^(.{10,40}?) +([A-Z]{4,5}) ', ['stamp', 'level'])
        END AS head
    FROM cleaned
),
named AS (
    SELECT
        line,
        is_json AND keyed IS NULL AS broken,
        contains(raw, 'Request failed during generation') AS failed,
        coalesce(head.stamp, keyed[1]) AS stamp,
        coalesce(head.level, keyed[2]) AS level,
        CASE WHEN is_json THEN coalesce(keyed[3], keyed[4])
            ELSE trim(split_part(raw, ':', -1)) END AS message,
        CASE WHEN is_json THEN keyed[5:9] ELSE [
            nullif(regexp_extract(raw, '[ {]total_time="([^"]*)"', 1), ''),
            nullif(regexp_extract(raw, ' validation_time="([^"]*)"', 1), ''),
            nullif(regexp_extract(raw, ' queue_time="([^"]*)"', 1), ''),
            nullif(regexp_extract(raw, ' inference_time="([^"]*)"', 1), ''),
            nullif(regexp_extract(raw, ' time_per_token="([^"]*)"', 1), '')
        ] END AS durations,
        CASE WHEN is_json THEN keyed[10]
            ELSE nullif(regexp_extract(raw, '[ {]trace_id=([0-9a-f]+)', 1), '') END AS request_id
    FROM split
),
parsed AS (
    SELECT
        *,
        instant_us(stamp, 'UTC') AS stamp_us,
        list_transform(durations, lambda cell: regexp_extract(
            cell, '^(\d{1,9})(?:\.(\d{1,9}))?(s|ms|µs|μs|us|ns)$', ['whole', 'fraction', 'unit']
        )) AS parts
    FROM named
),
measured AS (
    SELECT
        *,
        list_transform(parts, lambda part: CASE WHEN part.unit <> '' THEN
            (part.whole::BIGINT * 1000000000 + rpad(part.fraction, 9, '0')::BIGINT)
            // CASE part.unit WHEN 's' THEN 1 WHEN 'ms' THEN 1000 WHEN 'ns' THEN 1000000000
                ELSE 1000000 END
        END) AS spans_ns,
        -- Refused because as many requests as allowed were there: logged as it arrived.
        level = 'ERROR' AND message IN ('no permits available', 'Model is overloaded') AS refused
    FROM parsed
)
SELECT
    line,
    request_id,
    CASE WHEN refused THEN stamp_us
        ELSE stamp_us - (spans_ns[1] + 500) // 1000 END AS arrival_us,
    CASE WHEN NOT refused
        THEN stamp_us - (spans_ns[1] - spans_ns[2] - spans_ns[3] + 500) // 1000
    END AS dispatch_us,
    NULL::BIGINT AS first_token_us,
    CASE WHEN NOT refused THEN stamp_us END AS departure_us,
    NULL::VARCHAR AS request_class, -- a router serves one model, and does not name it
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    NULL::BIGINT AS prompt_tokens,
    -- time_per_token is inference_time / tokens, cut to nanoseconds.
    CASE WHEN NOT refused AND spans_ns[5] > 0
        THEN round(spans_ns[4] / spans_ns[5])::BIGINT END AS output_tokens,
    CASE WHEN refused THEN 'shed' WHEN message = 'Success' THEN 'completed' END AS status,
    NULL::BIGINT AS batch_id,
    CASE
        WHEN broken THEN 'malformed JSON'
        WHEN coalesce(message, '') <> 'Success' AND NOT coalesce(refused, false)
            THEN CASE
                WHEN level = 'ERROR' AND failed
                    THEN 'total_time: missing, a failed request has no arrival'
                ELSE 'not a request: neither Success nor a refusal'
            END
        ELSE coalesce(
            required('timestamp', stamp, stamp_us IS NOT NULL, 'must be a date and time'),
            CASE WHEN NOT refused THEN coalesce(
                required('total_time', durations[1], spans_ns[1] IS NOT NULL,
                    'must be a duration in s, ms, µs or ns'),
                required('validation_time', durations[2], spans_ns[2] IS NOT NULL,
                    'must be a duration in s, ms, µs or ns'),
                required('queue_time', durations[3], spans_ns[3] IS NOT NULL,
                    'must be a duration in s, ms, µs or ns'),
                optional('inference_time', durations[4], spans_ns[4] IS NOT NULL,
                    'must be a duration in s, ms, µs or ns'),
                optional('time_per_token', durations[5], spans_ns[5] IS NOT NULL,
                    'must be a duration in s, ms, µs or ns')
            ) END
        )
    END AS reason
FROM measured
