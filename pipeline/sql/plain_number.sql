-- Numbers of cells, made for each text. DuckDB's cast also takes 1_000, which no log means as a
-- number, and 1e3, which is none where digits are counted; $letters says whether the text may hold
-- such. Letters are told by their two cases, three times as fast as by a regular expression.
CREATE OR REPLACE TEMP MACRO real_number(cell) AS CASE
    WHEN NOT $letters OR NOT contains(cell, '_') THEN TRY_CAST(cell AS DOUBLE)
END;
CREATE OR REPLACE TEMP MACRO plain_number(cell) AS CASE
    WHEN NOT $letters OR (lower(cell) = upper(cell) AND NOT contains(cell, '_'))
        THEN TRY_CAST(cell AS DOUBLE)
END;
