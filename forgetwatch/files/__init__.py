"""Files: written whole or not at all, read within bounds, and locked.

writing          files that are complete or absent
reading          regular files within bounds, and the errors of all files
bounded_parquet  Parquet that is measured before it is decoded
tables           tables that forgetwatch writes, with their metadata and checksum
plain_yaml       YAML as texts, lists and mappings
locks            locks of files between processes
"""

from forgetwatch.files.bounded_parquet import check_row_group, parquet_batches, read_parquet
from forgetwatch.files.locks import LocksUnsupportedError, is_file_at, lock_again, lock_file, unlock_file
from forgetwatch.files.plain_yaml import Plain, parse_plain_yaml, read_plain_yaml
from forgetwatch.files.reading import (
    DAMAGE,
    file_errors,
    holds_text,
    is_text,
    read_content,
    read_head,
    read_text,
    regular_size,
    unpacked_limit,
)
from forgetwatch.files.tables import KEY, checksum_with, read_table, write_table
from forgetwatch.files.writing import write_atomically, write_problem, write_text
