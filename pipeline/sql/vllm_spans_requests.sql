-- vLLM spans llm_request, requests: the span begins at arrival; gen_ai.latency attributes count from
-- there. Their unit is $unit (s or ns); where that is null, the one in which e2e is within a factor
-- of 2 of the span's own length.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"name": "JSON", "start_ns": "JSON", "end_ns": "JSON", "start_time": "JSON",
          "end_time": "JSON", "status_code": "JSON", "attributes": {
            "gen_ai.request.id": "JSON", "gen_ai.response.model": "JSON",
            "gen_ai.request.model": "JSON", "gen_ai.request.model_name": "JSON",
            "gen_ai.usage.prompt_tokens": "JSON", "gen_ai.usage.completion_tokens": "JSON",
            "gen_ai.usage.input_tokens": "JSON", "gen_ai.usage.output_tokens": "JSON",
            "gen_ai.latency.time_in_queue": "JSON", "gen_ai.latency.time_to_first_token": "JSON",
            "gen_ai.latency.e2e": "JSON"},
          "resource": {"service.instance.id": "JSON", "host.name": "JSON"}}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
named AS (
    SELECT
        line,
        readable AND json_type(name) = 'VARCHAR' AS readable,
        status_code,
        CASE WHEN whole(start_ns) BETWEEN 1 AND 4102444800000000000 -- the year 2100
            THEN (whole(start_ns) + 500) // 1000
            ELSE instant_us(text_of(start_time), $zone) END AS start_us,
        CASE WHEN whole(end_ns) BETWEEN 1 AND 4102444800000000000 -- the year 2100
            THEN (whole(end_ns) + 500) // 1000
            ELSE instant_us(text_of(end_time), $zone) END AS end_us,
        attributes."gen_ai.request.id" AS id,
        coalesce(attributes."gen_ai.response.model", attributes."gen_ai.request.model",
            attributes."gen_ai.request.model_name") AS model,
        coalesce(resource."service.instance.id", resource."host.name") AS host,
        coalesce(attributes."gen_ai.usage.prompt_tokens", attributes."gen_ai.usage.input_tokens")
            AS prompt,
        coalesce(attributes."gen_ai.usage.completion_tokens",
            attributes."gen_ai.usage.output_tokens") AS completion,
        attributes."gen_ai.latency.time_in_queue" AS queue,
        attributes."gen_ai.latency.time_to_first_token" AS first,
        attributes."gen_ai.latency.e2e" AS total
    FROM parsed
),
timed AS (
    SELECT
        *,
        coalesce(identifier(status_code), '0') IN ('2', 'STATUS_CODE_ERROR', 'ERROR') AS failed,
        CASE
            WHEN $unit::VARCHAR = 's' THEN 1e6
            WHEN $unit::VARCHAR = 'ns' THEN 1e-3
            WHEN end_us > start_us AND finite(total) * 1e6
                BETWEEN (end_us - start_us) / 2 AND (end_us - start_us) * 2 THEN 1e6
            WHEN end_us > start_us AND finite(total) * 1e-3
                BETWEEN (end_us - start_us) / 2 AND (end_us - start_us) * 2 THEN 1e-3
        END AS unit_us
    FROM named
),
typed AS (
    SELECT
        *,
        CASE WHEN finite(queue) * unit_us BETWEEN 0 AND 86400e6
            THEN round(finite(queue) * unit_us)::BIGINT END AS queue_us,
        CASE WHEN finite(first) * unit_us BETWEEN 0 AND 86400e6
            THEN round(finite(first) * unit_us)::BIGINT END AS first_us,
        CASE WHEN finite(total) * unit_us BETWEEN 0 AND 86400e6
            THEN round(finite(total) * unit_us)::BIGINT END AS total_us
    FROM timed
)
SELECT
    line,
    identifier(id) AS request_id,
    start_us AS arrival_us,
    start_us + queue_us AS dispatch_us,
    start_us + first_us AS first_token_us,
    start_us + total_us AS departure_us,
    text_of(model) AS request_class,
    text_of(host) AS replica,
    NULL::DOUBLE AS size,
    whole(prompt) AS prompt_tokens,
    whole(completion) AS output_tokens,
    CASE WHEN failed THEN 'failed' ELSE 'completed' END AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required('gen_ai.request.id', id, identifier(id) IS NOT NULL, 'must be a text'),
        CASE WHEN start_us IS NULL THEN 'startTimeUnixNano: must be ns above 0' END,
        required('gen_ai.latency.e2e', total, finite(total) >= 0, 'must be at least 0'),
        CASE WHEN unit_us IS NULL
            THEN 'gen_ai.latency.e2e: neither s nor ns by the length of the span; '
                || 'set options.latency_unit' END,
        CASE WHEN total_us IS NULL THEN 'gen_ai.latency.e2e: above 86400 s' END,
        CASE WHEN $unit::VARCHAR IS NOT NULL AND end_us - start_us > 1000
            AND total_us NOT BETWEEN (end_us - start_us) / 100 AND (end_us - start_us) * 100
            THEN 'gen_ai.latency.e2e: far from the length of the span in options.latency_unit = '
                || $unit::VARCHAR || '; null finds the unit' END,
        optional('gen_ai.latency.time_in_queue', queue, queue_us <= total_us,
            'must be from 0 to gen_ai.latency.e2e'),
        optional('gen_ai.latency.time_to_first_token', first, first_us <= total_us,
            'must be from 0 to gen_ai.latency.e2e'),
        optional('gen_ai.usage.prompt_tokens', prompt, whole(prompt) >= 0,
            'must be a whole number of at least 0'),
        optional('gen_ai.usage.completion_tokens', completion, whole(completion) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed span' END AS reason
FROM typed
