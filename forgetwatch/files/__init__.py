"""Files: written whole or not at all, and read within bounds.

writing       files that are complete or absent
reading       regular files within bounds, YAML as plain values, and the errors of all files
table_files   Parquet that is measured before it is decoded, and forgetwatch's own tables
rows          the rows of a table or document in any format
json_pieces   large JSON files in pieces
"""
