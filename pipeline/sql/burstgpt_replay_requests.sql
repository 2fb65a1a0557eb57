-- BurstGPT replay client, requests. record_time is when the last chunk came, in seconds of a
-- monotonic clock; the chunk times count from the send. out_len is characters and not read.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"key": "JSON", "event_id": "JSON", "in_len": "JSON", "first_chunk_time": "JSON",
          "total_chunk_time": "JSON", "record_time": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT
        *,
        CASE WHEN finite(record_time) BETWEEN 0 AND 4102444800 THEN finite(record_time) END AS end_s,
        CASE WHEN finite(total_chunk_time) BETWEEN 0 AND 86400
            THEN finite(total_chunk_time) END AS total_s,
        CASE WHEN finite(first_chunk_time) BETWEEN 0 AND 86400
            THEN finite(first_chunk_time) END AS first_s
    FROM parsed
)
SELECT
    line,
    identifier(key) AS request_id,
    round((end_s - total_s) * 1e6)::BIGINT AS arrival_us,
    NULL::BIGINT AS dispatch_us,
    round((end_s - total_s + first_s) * 1e6)::BIGINT AS first_token_us,
    round(end_s * 1e6)::BIGINT AS departure_us,
    NULL::VARCHAR AS request_class,
    NULL::VARCHAR AS replica,
    NULL::DOUBLE AS size,
    whole(in_len) AS prompt_tokens,
    NULL::BIGINT AS output_tokens,
    'completed' AS status,
    NULL::BIGINT AS batch_id,
    CASE WHEN readable THEN coalesce(
        required('event_id', event_id, identifier(event_id) = identifier(key),
            'must be the key of the entry'),
        required('record_time', record_time, end_s IS NOT NULL, 'must be seconds, at least 0'),
        required('total_chunk_time', total_chunk_time, total_s IS NOT NULL,
            'must be seconds from 0 to 86400'),
        required('first_chunk_time', first_chunk_time, first_s IS NOT NULL,
            'must be seconds from 0 to 86400'),
        CASE WHEN first_s > total_s THEN 'first_chunk_time: above total_chunk_time' END,
        required('in_len', in_len, whole(in_len) >= 0, 'must be a whole number of at least 0')
    ) ELSE 'malformed entry' END AS reason
FROM typed
