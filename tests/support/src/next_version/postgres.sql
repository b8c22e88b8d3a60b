-- For tests of upgrades: what a later version may do to a schema that this one goes on using: new tables, new indexes, and new
-- columns, which have a value where this version writes none.

DO $$ DECLARE of_this text; BEGIN
    FOR of_this IN SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')
        AND relnamespace = current_schema()::regnamespace AND relname <> 'antwort_schema'
    LOOP
        EXECUTE format('ALTER TABLE %I ADD COLUMN test_only text NOT NULL DEFAULT ''new''', of_this);
        EXECUTE format('CREATE INDEX ON %I (test_only)', of_this);
    END LOOP;
END $$;

CREATE TABLE test_only (id bigint PRIMARY KEY);
