-- What the staging queries share: typed values of JSON fields, and the reasons to reject a record.

-- A whole number, also one written as 21073.0; NULL for anything else, NaN included.
CREATE TEMP MACRO whole(field) AS CASE
    WHEN json_type(field) IN ('BIGINT', 'UBIGINT') THEN TRY_CAST(field AS BIGINT)
    WHEN json_type(field) = 'DOUBLE'
        AND isfinite(TRY_CAST(field AS DOUBLE))
        AND TRY_CAST(field AS DOUBLE) = trunc(TRY_CAST(field AS DOUBLE))
        AND abs(TRY_CAST(field AS DOUBLE)) < 9007199254740992 -- 2^53: whole numbers are exact
        THEN TRY_CAST(TRY_CAST(field AS DOUBLE) AS BIGINT)
END;

-- A finite number; NULL for anything else.
CREATE TEMP MACRO finite(field) AS CASE
    WHEN json_type(field) IN ('BIGINT', 'UBIGINT', 'DOUBLE') AND isfinite(TRY_CAST(field AS DOUBLE))
        THEN TRY_CAST(field AS DOUBLE)
END;

-- A text; NULL for anything else.
CREATE TEMP MACRO text_of(field) AS CASE
    WHEN json_type(field) = 'VARCHAR' THEN json_extract_string(field, '$')
END;

-- An identifier, which may be a text or a whole number; NULL for anything else.
CREATE TEMP MACRO identifier(field) AS CASE
    WHEN json_type(field) IN ('BIGINT', 'UBIGINT', 'VARCHAR') THEN json_extract_string(field, '$')
END;

-- The reason against a field that must be there, or NULL. `holds` is NULL where the type is wrong.
CREATE TEMP MACRO required(name, field, holds, rule) AS CASE
    WHEN field IS NULL THEN name || ': missing'
    WHEN NOT coalesce(holds, false) THEN name || ': ' || rule
END;

-- The reason against a field that may be absent or null, or NULL.
CREATE TEMP MACRO optional(name, field, holds, rule) AS CASE
    WHEN field IS NOT NULL AND NOT coalesce(holds, false) THEN name || ': ' || rule
END;
