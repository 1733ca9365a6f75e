-- What a role without privileges needs for replication, made by a superuser in the gateway's database. It may be run as often as one likes.
-- The privileges are those of a group: the way back of an upgrade drops all that belongs to the gateway's role, its own privileges included.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway_cluster') THEN
        CREATE ROLE gateway_cluster NOLOGIN;
    END IF;
    -- Whom other nodes connect as, see gateway_cluster.admit.
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway_repl') THEN
        CREATE ROLE gateway_repl LOGIN REPLICATION;
    END IF;
    IF NOT pg_has_role('gateway', 'gateway_cluster', 'MEMBER') THEN
        GRANT gateway_cluster TO gateway;
    END IF;
    -- Rows that are taken over from the primary are not the gateway's own changes.
    IF NOT has_parameter_privilege('gateway_cluster', 'session_replication_role', 'SET') THEN
        GRANT SET ON PARAMETER session_replication_role TO gateway_cluster;
    END IF;
END
$$;

CREATE SCHEMA IF NOT EXISTS gateway_cluster;

-- Subscribes to the primary by a slot that is there. The subscription belongs to the owner of the database: what replication runs, such as
-- triggers, runs as that one and not as a superuser. Before PostgreSQL 16, only a superuser can be given a subscription; that the owner is
-- one for a moment is seen by no one, for it is over before the transaction ends.
CREATE OR REPLACE FUNCTION gateway_cluster.subscribe(conninfo text, slot text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner pg_roles := (SELECT r FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba WHERE d.datname = current_database());
    wide  boolean := current_setting('server_version_num')::int >= 160000;
BEGIN
    EXECUTE format('CREATE SUBSCRIPTION gateway CONNECTION %L PUBLICATION gateway WITH (create_slot = false, slot_name = %L, copy_data = false, synchronous_commit = on%s)',
        conninfo, slot, CASE WHEN wide THEN ', password_required = false, run_as_owner = true' ELSE '' END);
    IF NOT owner.rolsuper AND NOT wide THEN
        EXECUTE format('ALTER ROLE %I SUPERUSER', owner.rolname);
    END IF;
    EXECUTE format('ALTER SUBSCRIPTION gateway OWNER TO %I', owner.rolname);
    IF NOT owner.rolsuper AND NOT wide THEN
        EXECUTE format('ALTER ROLE %I NOSUPERUSER', owner.rolname);
    END IF;
END
$$;

-- Ends the subscription of this database, if there is one. The slot is not touched: the primary may be away.
CREATE OR REPLACE FUNCTION gateway_cluster.unsubscribe() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF gateway_cluster.subscribed() THEN
        ALTER SUBSCRIPTION gateway DISABLE;
        ALTER SUBSCRIPTION gateway SET (slot_name = NONE);
        DROP SUBSCRIPTION gateway;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION gateway_cluster.pause() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF gateway_cluster.subscribed() THEN
        ALTER SUBSCRIPTION gateway DISABLE;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION gateway_cluster.resume() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF gateway_cluster.subscribed() THEN
        ALTER SUBSCRIPTION gateway ENABLE;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION gateway_cluster.subscribed() RETURNS boolean LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE s.subname = 'gateway' AND d.datname = current_database())
$$;

-- Lets other nodes read what all share, what this node is and which version its schema has. The owner of the tables can do it, too, when there are more.
CREATE OR REPLACE FUNCTION gateway_cluster.admit() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    shared text;
BEGIN
    FOR shared IN
        SELECT format('%I.%I', schemaname, tablename) FROM pg_publication_tables WHERE pubname = 'gateway'
        UNION SELECT c::text FROM unnest(ARRAY[to_regclass('public.ha_state'), to_regclass('public.goose_db_version')]) c WHERE c IS NOT NULL
    LOOP
        IF NOT has_table_privilege('gateway_repl', shared, 'SELECT') THEN
            EXECUTE 'GRANT SELECT ON ' || shared || ' TO gateway_repl';
        END IF;
    END LOOP;
END
$$;

SELECT gateway_cluster.admit();

-- Tells what the server has taken of the settings for other nodes.
CREATE OR REPLACE FUNCTION gateway_cluster.listens(OUT listen text, OUT access text, OUT members text, OUT tls boolean, OUT loaded timestamptz, OUT faults bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('listen_addresses'), current_setting('hba_file'), current_setting('ident_file'), current_setting('ssl')::boolean, pg_conf_load_time(),
        (SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL) + (SELECT count(*) FROM pg_ident_file_mappings WHERE error IS NOT NULL)
$$;

-- Ends the sessions of other nodes but those of the addresses, drops all slots but those whose names begin as told, and counts what is still there.
CREATE OR REPLACE FUNCTION gateway_cluster.dismiss(slots text[], addresses inet[]) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    gone text[] := ARRAY(SELECT slot_name FROM pg_replication_slots r WHERE database = current_database() AND starts_with(slot_name, 'gateway_')
                         AND NOT EXISTS (SELECT FROM unnest(slots) s WHERE starts_with(r.slot_name, s)));
BEGIN
    PERFORM pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'gateway_repl' AND client_addr <> ALL (addresses);
    PERFORM pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = ANY (gone) AND active;
    PERFORM pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = ANY (gone) AND NOT active;
    RETURN (SELECT count(*) FROM pg_replication_slots WHERE slot_name = ANY (gone))
        + (SELECT count(*) FROM pg_stat_activity WHERE usename = 'gateway_repl' AND client_addr <> ALL (addresses));
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA gateway_cluster FROM PUBLIC;
GRANT USAGE ON SCHEMA gateway_cluster TO gateway_cluster;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA gateway_cluster TO gateway_cluster;
