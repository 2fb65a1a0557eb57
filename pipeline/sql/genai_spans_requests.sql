-- OpenTelemetry GenAI spans, requests: the span begins at arrival and ends at departure; the time to
-- the first chunk counts from its start, in seconds. Names of 2024 are read where today's are absent.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"trace_id": "JSON", "span_id": "JSON", "start_ns": "JSON", "end_ns": "JSON",
          "start_time": "JSON", "end_time": "JSON", "status_code": "JSON", "attributes": {
            "gen_ai.request.model": "JSON", "gen_ai.response.model": "JSON",
            "gen_ai.response.id": "JSON", "gen_ai.response.time_to_first_chunk": "JSON",
            "gen_ai.usage.input_tokens": "JSON", "gen_ai.usage.output_tokens": "JSON",
            "gen_ai.usage.prompt_tokens": "JSON", "gen_ai.usage.completion_tokens": "JSON",
            "error.type": "JSON", "server.address": "JSON", "server.port": "JSON"}}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
named AS (
    SELECT
        line, readable, trace_id, span_id,
        CASE WHEN whole(start_ns) BETWEEN 1 AND 4102444800000000000 -- the year 2100
            THEN (whole(start_ns) + 500) // 1000
            ELSE instant_us(text_of(start_time), $zone) END AS start_us,
        CASE WHEN whole(end_ns) BETWEEN 1 AND 4102444800000000000 -- the year 2100
            THEN (whole(end_ns) + 500) // 1000
            ELSE instant_us(text_of(end_time), $zone) END AS end_us,
        identifier(attributes."error.type") AS error,
        coalesce(identifier(status_code), '0') IN ('2', 'STATUS_CODE_ERROR', 'ERROR')
            OR attributes."error.type" IS NOT NULL AS failed,
        coalesce(attributes."gen_ai.request.model", attributes."gen_ai.response.model") AS model,
        attributes."gen_ai.response.id" AS response_id,
        attributes."server.address" AS address,
        attributes."server.port" AS port,
        attributes."gen_ai.response.time_to_first_chunk" AS first,
        coalesce(attributes."gen_ai.usage.input_tokens", attributes."gen_ai.usage.prompt_tokens")
            AS prompt,
        coalesce(attributes."gen_ai.usage.output_tokens",
            attributes."gen_ai.usage.completion_tokens") AS completion
    FROM parsed
),
typed AS (
    SELECT
        *,
        CASE WHEN finite(first) BETWEEN 0 AND 86400 THEN round(finite(first) * 1e6)::BIGINT END
            AS first_us
    FROM named
)
SELECT
    line,
    CASE WHEN $by_response THEN text_of(response_id)
        ELSE text_of(trace_id) || '/' || text_of(span_id) END AS request_id,
    start_us AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    start_us + first_us AS first_token_us,
    end_us AS departure_us,
    text_of(model) AS request_class,
    text_of(address) || coalesce(':' || identifier(port), '') AS replica,
    NULL::DOUBLE AS size,
    whole(prompt) AS prompt_tokens,
    whole(completion) AS output_tokens,
    CASE WHEN failed AND coalesce(error = '429', false) THEN 'shed'
        WHEN failed THEN 'failed' ELSE 'completed' END AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required('traceId', trace_id, text_of(trace_id) IS NOT NULL, 'must be a text'),
        required('spanId', span_id, text_of(span_id) IS NOT NULL, 'must be a text'),
        CASE WHEN start_us IS NULL THEN 'startTimeUnixNano: must be ns above 0'
            WHEN end_us IS NULL THEN 'endTimeUnixNano: must be ns above 0' END,
        CASE WHEN $by_response AND NOT failed
            THEN required('gen_ai.response.id', response_id, text_of(response_id) IS NOT NULL,
                'must be a text') END,
        optional('gen_ai.response.time_to_first_chunk', first, first_us IS NOT NULL,
            'must be seconds from 0 to 86400'),
        optional('gen_ai.usage.input_tokens', prompt, whole(prompt) >= 0,
            'must be a whole number of at least 0'),
        optional('gen_ai.usage.output_tokens', completion, whole(completion) >= 0,
            'must be a whole number of at least 0')
    ) ELSE 'malformed span' END AS reason
FROM typed
