"""Operations on a whole store: backup, checks, vacuum, reindexing and deletion."""
