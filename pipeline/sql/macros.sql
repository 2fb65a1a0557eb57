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

-- Cells of a text row. The first two are made anew for each text: see plain_number.sql.
CREATE TEMP MACRO real_number(cell) AS TRY_CAST(cell AS DOUBLE);
CREATE TEMP MACRO plain_number(cell) AS TRY_CAST(cell AS DOUBLE);

-- A whole number, also one written as 21073.0, below 10^15; or NULL.
CREATE TEMP MACRO whole_number(number) AS CASE
    WHEN number = floor(number) AND abs(number) < 1e15 THEN number::BIGINT
END;
CREATE TEMP MACRO whole_text(cell) AS whole_number(plain_number(cell));

-- A finite number, which may have an exponent (Python prints 7e-05, Go 1.2e-05); or NULL.
CREATE TEMP MACRO finite_text(cell) AS CASE
    WHEN isfinite(real_number(cell)) THEN real_number(cell)
END;

-- Microseconds of a number of seconds, to the nearest; NULL beyond a century from 1970. A double
-- of today's Unix time is exact to 0.25 us, so that microseconds survive.
CREATE TEMP MACRO number_us(seconds) AS CASE
    WHEN abs(seconds) < 4e9 THEN round(seconds * 1e6)::BIGINT
END;
CREATE TEMP MACRO seconds_us(cell) AS number_us(real_number(cell));

-- The instant of a date and time in microseconds since 1970, to the nearest, halves up. It has up
-- to 9 fraction digits or none, after a dot or a comma, and Z, an offset, or neither: then it is in
-- the zone. NULL for anything else, also for an hour that the zone leaves out when summer begins;
-- of one that it has twice when summer ends, the second is meant.
CREATE TEMP MACRO stamp_parts(cell) AS regexp_extract(
    cell,
    '^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?(Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)?$',
    ['date', 'clock', 'fraction', 'offset']
);
CREATE TEMP MACRO offset_us(text) AS (CASE WHEN text[1] = '-' THEN -60000000 ELSE 60000000 END)
    * (TRY_CAST(text[2:3] AS BIGINT) * 60
        + coalesce(TRY_CAST(nullif(replace(text[4:], ':', ''), '') AS BIGINT), 0));
CREATE TEMP MACRO local_us(zone, clock) AS CASE
    WHEN timezone(zone, timezone(zone, clock)) = clock THEN epoch_us(timezone(zone, clock))
END;
CREATE TEMP MACRO parts_us(parts, zone) AS CASE
    WHEN parts.date = '' THEN NULL
    WHEN parts.offset = ''
        THEN local_us(zone, TRY_CAST(parts.date || ' ' || parts.clock AS TIMESTAMP))
    WHEN parts.offset = 'Z' THEN epoch_us(TRY_CAST(parts.date || ' ' || parts.clock AS TIMESTAMP))
    ELSE epoch_us(TRY_CAST(parts.date || ' ' || parts.clock AS TIMESTAMP))
        - offset_us(parts.offset)
END + (coalesce(TRY_CAST(rpad(parts.fraction, 9, '0') AS BIGINT), 0) + 500) // 1000;
CREATE TEMP MACRO instant_us(cell, zone) AS parts_us(stamp_parts(cell), zone);

-- The cells of a row of which some are quoted: "" in quotes is a quotation mark. None where a
-- quotation mark stands anywhere else: what the pattern skips is missing from the cells.
CREATE TEMP MACRO quoted_parts(raw, delimiter) AS regexp_extract_all(
    raw || delimiter,
    '([ \t]*"(?:[^"]|"")*"[ \t]*|[^"' || regexp_escape(delimiter) || ']*)' || regexp_escape(delimiter),
    1
);
CREATE TEMP MACRO unquoted(parts, raw, delimiter) AS CASE
    WHEN array_to_string(parts, delimiter) = raw THEN list_transform(
        parts,
        lambda cell: CASE
            WHEN starts_with(trim(cell, ' ' || chr(9)), '"')
                THEN replace(trim(cell, ' ' || chr(9))[2:-2], '""', '"')
            ELSE cell
        END
    )
    ELSE []
END;
CREATE TEMP MACRO quoted_cells(raw, delimiter)
    AS unquoted(quoted_parts(raw, delimiter), raw, delimiter);
