-- ServerlessLLM loading times: seconds to microseconds; the copy's number is cut off the model.
WITH parsed AS (
    SELECT line, unnest(from_json(
        TRY_CAST(raw AS JSON), '{"model_name": "JSON", "loading_time": "JSON"}'
    ))
    FROM records
)
SELECT
    line,
    regexp_replace(text_of(model_name), '_\d+$', '') AS request_class,
    NULL::VARCHAR AS replica,
    CASE WHEN finite(loading_time) BETWEEN 0 AND 3e11
        THEN round(finite(loading_time) * 1e6)::BIGINT END AS cold_start_us,
    coalesce(
        required('model_name', model_name, text_of(model_name) <> '', 'must be a text'),
        required('loading_time', loading_time, finite(loading_time) BETWEEN 0 AND 3e11,
            'must be seconds of at least 0')
    ) AS reason
FROM parsed
