-- Serving log as CSV, batches: cells become what they are in JSON lines, and the rest is the same
-- as in serving_log_batches.sql, which a test compares. A cell is text as it stands, `=` and all.
WITH parsed AS (
    SELECT
        line,
        NOT malformed AS readable,
        fields[1] AS request_class,
        fields[2] AS batch_id,
        fields[3] AS replica,
        fields[4] AS batch_size,
        fields[5] AS dispatch_us,
        fields[6] AS departure_us
    FROM (
        SELECT line, malformed, list_transform([
            request_class,
            batch_id,
            replica,
            batch_size,
            dispatch_us,
            departure_us
        ], lambda cell, place: CASE
            WHEN cell IS NULL THEN NULL
            WHEN place NOT IN (1) AND regexp_full_match(cell, '-?\d{1,18}')
                THEN to_json(cell::BIGINT)
            WHEN place NOT IN (1) AND regexp_full_match(cell, '[-+.0-9eE]{1,30}')
                AND isfinite(TRY_CAST(cell AS DOUBLE)) THEN to_json(TRY_CAST(cell AS DOUBLE))
            ELSE to_json(cell)
        END) AS fields
        FROM records
    )
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
        ) ELSE 'row: has not as many cells as the header' END AS fault
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
