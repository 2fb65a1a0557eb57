-- Serving log, decisions, in the order of their clock; the first of equal decision ids stays.
WITH parsed AS (
    SELECT line, coalesce(json_type(record) = 'OBJECT', false) AS readable, unnest(from_json(
        record,
        '{"decision_id": "JSON", "clock_us": "JSON", "queue_length": "JSON", "can_take": "JSON",
          "action": "JSON", "propensity": "JSON", "batch_id": "JSON"}'
    ))
    FROM (SELECT line, TRY_CAST(raw AS JSON) AS record FROM records)
),
listed AS (
    SELECT
        * REPLACE (
            CASE WHEN json_type(queue_length) = 'ARRAY'
                THEN list_transform(json_extract(queue_length, '$[*]'), lambda field: whole(field))
            END AS queue_length,
            CASE WHEN json_type(can_take) = 'ARRAY'
                THEN list_transform(json_extract(can_take, '$[*]'), lambda field: CASE
                    WHEN json_type(field) = 'BOOLEAN' THEN TRY_CAST(field AS BOOLEAN)
                END)
            END AS can_take
        ),
        queue_length IS NULL AS lacks_queue_length,
        can_take IS NULL AS lacks_can_take
    FROM parsed
),
typed AS (
    SELECT
        line,
        whole(decision_id) AS decision_id,
        whole(clock_us) AS clock_us,
        queue_length,
        can_take,
        whole(action) AS action,
        finite(propensity) AS propensity,
        whole(batch_id) AS batch_id,
        CASE WHEN readable THEN coalesce(
            required('decision_id', decision_id, whole(decision_id) IS NOT NULL,
                'must be a whole number'),
            required('clock_us', clock_us, whole(clock_us) >= 0,
                'must be a whole number of at least 0'),
            CASE
                WHEN lacks_queue_length THEN 'queue_length: missing'
                WHEN queue_length IS NULL
                    OR len(queue_length) <> $classes
                    OR len(list_filter(queue_length, lambda length:
                        length BETWEEN 0 AND 2147483647)) <> $classes
                    THEN 'queue_length: must have a whole number of at least 0 for each class'
                WHEN lacks_can_take THEN 'can_take: missing'
                WHEN can_take IS NULL
                    OR len(can_take) <> $replicas
                    OR len(list_filter(can_take, lambda can: can IS NOT NULL)) <> $replicas
                    THEN 'can_take: must have true or false for each replica'
            END,
            required('action', action, whole(action) BETWEEN 0 AND $actions - 1,
                'must be below the number of actions'),
            required('propensity', propensity, finite(propensity) > 0 AND finite(propensity) <= 1,
                'must be in (0, 1]'),
            optional('batch_id', batch_id, whole(batch_id) IS NOT NULL,
                'must be null or a whole number'),
            CASE WHEN (whole(action) = 0) <> (batch_id IS NULL)
                THEN 'batch_id: must be null for action 0 (WAIT), and for it alone' END
        ) ELSE 'malformed JSON' END AS fault
    FROM listed
),
ordered AS (
    SELECT * REPLACE (coalesce(fault, CASE
        WHEN clock_us < max(clock_us) FILTER (WHERE fault IS NULL) OVER (
            ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) THEN 'clock_us: below one before it'
    END) AS fault)
    FROM typed
)
SELECT
    line,
    decision_id,
    clock_us,
    queue_length,
    can_take,
    action,
    propensity,
    batch_id,
    coalesce(fault, CASE
        WHEN row_number() OVER (PARTITION BY decision_id, fault IS NULL ORDER BY line) > 1
            THEN 'decision_id: seen before'
    END) AS reason
FROM ordered;
