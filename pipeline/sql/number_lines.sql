-- The lines numbered from 1; blank ones are no records, but counted.
CREATE OR REPLACE TEMP VIEW lines AS
SELECT rowid + 1 AS line, raw
FROM text_lines
WHERE trim(raw, ' ' || chr(9)) <> '';
