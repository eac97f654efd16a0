-- The two databases, each owned by a user of its own: the lake's catalog, and Dagster's storage.
-- PostgreSQL's image executes this by psql when its volume is empty. The passwords are the files of Compose's secrets.
\set lake_password `cat /run/secrets/LAKE_CATALOG_PASSWORD`
\set dagster_password `cat /run/secrets/DAGSTER_PG_PASSWORD`

CREATE ROLE lake LOGIN PASSWORD :'lake_password';
CREATE DATABASE lake OWNER lake;
REVOKE CONNECT ON DATABASE lake FROM PUBLIC;

CREATE ROLE dagster LOGIN PASSWORD :'dagster_password';
CREATE DATABASE dagster OWNER dagster;
REVOKE CONNECT ON DATABASE dagster FROM PUBLIC;
