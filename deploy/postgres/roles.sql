-- Roles of a lake whose catalog is this PostgreSQL database. A run with less than this fails, and changes nothing.
--
--   lake_owner   creates the lake: the first ingest of each stream, changed columns, maintenance, upgrades
--   lake_writer  ingests into tables that exist
--   lake_reader  queries the lake
--
-- An administrator creates the three roles, and gives each to the users that need it:
--   CREATE ROLE lake_owner LOGIN PASSWORD '…';
--   CREATE ROLE lake_reader;
--   CREATE ROLE lake_writer IN ROLE lake_reader;
--   ALTER DATABASE lake OWNER TO lake_owner;
--   CREATE ROLE nightly LOGIN PASSWORD '…' IN ROLE lake_writer;
-- lake_owner ingests each stream once, then executes this file in the lake's database, and again after an upgrade of lake_assets.
-- For a catalog in another schema than public (`metadata_schema`), set search_path first, and grant USAGE on that schema.

-- DuckLake reads most of its tables for any query, and creates tables for inlined rows as the lake grows.
GRANT SELECT ON ALL TABLES IN SCHEMA public TO lake_reader;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO lake_reader;

-- A commit: the end of the old files, the new files with their statistics, and the snapshot.
GRANT INSERT ON ducklake_snapshot TO lake_writer;
GRANT INSERT ON ducklake_snapshot_changes TO lake_writer;
GRANT INSERT ON ducklake_data_file TO lake_writer;
GRANT UPDATE ON ducklake_data_file TO lake_writer;
GRANT INSERT ON ducklake_file_column_stats TO lake_writer;
GRANT INSERT ON ducklake_file_partition_value TO lake_writer;
GRANT UPDATE ON ducklake_table_stats TO lake_writer;
GRANT UPDATE ON ducklake_table_column_stats TO lake_writer;

-- Ledger, manifest and those of deltas and dead letters: their new rows are inlined, in tables whose names have the numbers of the lake's tables.
DO $$
DECLARE
    inlined text;
BEGIN
    FOR inlined IN SELECT inlined_tables.table_name FROM ducklake_inlined_data_tables inlined_tables JOIN ducklake_table USING (table_id)
        WHERE ducklake_table.table_name IN ('ingest_runs', 'ingest_files', 'ingest_deltas', 'ingest_dead_letters')
    LOOP
        EXECUTE format('GRANT INSERT ON %I TO lake_writer', inlined);
    END LOOP;
    -- Of the manifest of dead letters a writer may write the first row, which has the first statistics.
    IF EXISTS (SELECT FROM ducklake_table WHERE table_name = 'ingest_dead_letters') THEN
        GRANT INSERT ON ducklake_table_stats, ducklake_table_column_stats TO lake_writer;
    END IF;
END
$$;
