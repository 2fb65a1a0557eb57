-- Serving log, batches, in any order; the first of equal batch ids stays.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"batch_id": "JSON", "replica": "JSON", "request_class": "JSON", "batch_size": "JSON",
          "dispatch_us": "JSON", "departure_us": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
typed AS (
    SELECT
        line,
        whole(batch_id) AS batch_id,
        whole(replica) AS replica,
        text_of(request_class) AS request_class,
        whole(batch_size) AS batch_size,
        whole(dispatch_us) AS dispatch_us,
        whole(departure_us) AS departure_us,
        CASE WHEN readable THEN coalesce(
            required('batch_id', batch_id, whole(batch_id) IS NOT NULL, 'must be a whole number'),
            required('replica', replica, whole(replica) BETWEEN 0 AND $replicas - 1,
                'must be below the number of replicas'),
            required('request_class', request_class,
                list_contains($request_classes, text_of(request_class)), 'unknown request class'),
            required('batch_size', batch_size, whole(batch_size) BETWEEN 1 AND 2147483647,
                'must be a whole number of at least 1'),
            required('dispatch_us', dispatch_us, whole(dispatch_us) >= 0,
                'must be a whole number of at least 0'),
            required('departure_us', departure_us, whole(departure_us) >= 0,
                'must be a whole number of at least 0'),
            CASE WHEN whole(departure_us) < whole(dispatch_us)
                THEN 'departure_us: before dispatch_us' END
        ) ELSE 'malformed JSON' END AS fault
    FROM parsed
)
SELECT
    line,
    batch_id,
    replica::VARCHAR AS replica,
    request_class,
    batch_size,
    dispatch_us,
    departure_us,
    coalesce(fault, CASE
        WHEN row_number() OVER (PARTITION BY batch_id, fault IS NULL ORDER BY line) > 1
            THEN 'batch_id: seen before'
    END) AS reason
FROM typed;
