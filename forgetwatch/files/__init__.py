"""Files: written whole or not at all, and read within bounds.

writing       files that are complete or absent
reading       regular files within bounds, YAML as texts, lists and mappings, and the errors of all files
tables        Parquet that is measured before it is decoded, and the tables that forgetwatch writes
rows          the rows of a table or document in any format, and large JSON files in pieces
"""

from forgetwatch.files.reading import (
    DAMAGE,
    MAX_SIZE,
    Plain,
    UnsuitableError,
    csv_dialect,
    file_errors,
    holds_text,
    is_text,
    open_plain,
    parse_plain_yaml,
    read_content,
    read_head,
    read_plain_yaml,
    read_text,
    regular_size,
    table_suffix,
    table_text,
    unique_keys,
    unpacked_limit,
)
from forgetwatch.files.rows import (
    ABSENT,
    NEEDED,
    Document,
    Progress,
    begins_array,
    begins_json,
    build,
    first_object,
    json_array,
    json_lines,
    pick,
    read_rows,
    spans,
    table_rows,
    value_at,
)
from forgetwatch.files.tables import (
    KEY,
    check_row_group,
    checksum_with,
    parquet_batches,
    read_parquet,
    read_table,
    write_table,
)
from forgetwatch.files.writing import NO_SOFT, write_atomically, write_problem, write_text
