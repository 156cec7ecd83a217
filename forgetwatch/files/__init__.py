"""Files: written whole or not at all, and read within bounds.

writing       files that are complete or absent
reading       regular files within bounds, YAML as texts, lists and mappings, and the errors of all files
table_files   Parquet that is measured before it is decoded, and the tables that forgetwatch writes
rows          the rows of a table or document in any format, and large JSON files in pieces
"""
