-- Creates what an unprivileged role needs for replication. A superuser runs it in the gateway's database; it is idempotent.
-- The privileges are granted to a group role: the rollback of an upgrade drops everything that the gateway's role owns, including its own privileges.
--
-- The database belongs to an unprivileged role, which may have put anything into it. So nothing of it is called or read here, and no name is resolved in its
-- schemas. All of this must be one transaction: psql needs --single-transaction.
SET LOCAL search_path = pg_catalog, pg_temp;

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

-- The owner of the schema or of a function could replace what runs as a superuser. An unprivileged role can neither drop nor take over what a superuser owns, so
-- the result of this check remains valid.
DO $$
DECLARE
    stranger text := (SELECT r.rolname FROM pg_roles r WHERE NOT r.rolsuper AND r.oid IN (
        SELECT nspowner FROM pg_namespace WHERE nspname = 'gateway_cluster'
        UNION ALL SELECT proowner FROM pg_proc WHERE pronamespace = 'gateway_cluster'::regnamespace) LIMIT 1);
BEGIN
    IF stranger IS NOT NULL THEN
        RAISE EXCEPTION 'the schema gateway_cluster of the database % belongs to the role %, which is not a superuser: if nothing of it is needed, drop it', current_database(), stranger;
    END IF;
END
$$;
REVOKE ALL ON SCHEMA gateway_cluster FROM PUBLIC, gateway;

-- Returns whether this is the connection to a primary: to another node, as gateway_repl, with the files of the cluster. Other parameters of libpq could make
-- PostgreSQL log in as its own user, send a file elsewhere, or load a library.
CREATE OR REPLACE FUNCTION gateway_cluster.reaches(conninfo text) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT conninfo ~ ('^host=[0-9A-Za-z][0-9A-Za-z.-]* hostaddr=[0-9a-f.:]+ port=5432 dbname=gateway user=gateway_repl sslmode=verify-full ssl_min_protocol_version=TLSv1[.]3'
        || ' sslrootcert=/etc/postgresql/gateway/authority[.]pem sslcert=/etc/postgresql/gateway/node[.]pem sslkey=/etc/postgresql/gateway/node[.]pem connect_timeout=5 tcp_user_timeout=15000$')
$$;

-- Subscribes to the primary with an existing slot. The subscription belongs to the owner of the database: what replication runs, such as
-- triggers, runs as that role and not as a superuser. Before PostgreSQL 16, only a superuser can become the owner of a subscription: the role is one
-- temporarily, which no other transaction sees, because it is reset in the same transaction.
CREATE OR REPLACE FUNCTION gateway_cluster.subscribe(conninfo text, slot text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    owner pg_roles := (SELECT r FROM pg_database d JOIN pg_roles r ON r.oid = d.datdba WHERE d.datname = current_database());
    wide  boolean := current_setting('server_version_num')::int >= 160000;
BEGIN
    IF NOT gateway_cluster.reaches(conninfo) AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = session_user) THEN
        RAISE insufficient_privilege USING MESSAGE = 'a gateway subscribes only to another node of its cluster';
    END IF;
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

-- Drops the subscription of this database, if it exists. The slot is kept, because the primary may be unreachable.
CREATE OR REPLACE FUNCTION gateway_cluster.unsubscribe() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE s.subname = 'gateway' AND d.datname = current_database()) THEN
        ALTER SUBSCRIPTION gateway DISABLE;
        ALTER SUBSCRIPTION gateway SET (slot_name = NONE);
        DROP SUBSCRIPTION gateway;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION gateway_cluster.pause() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE s.subname = 'gateway' AND d.datname = current_database()) THEN
        ALTER SUBSCRIPTION gateway DISABLE;
    END IF;
END
$$;

CREATE OR REPLACE FUNCTION gateway_cluster.resume() RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE s.subname = 'gateway' AND d.datname = current_database()) THEN
        ALTER SUBSCRIPTION gateway ENABLE;
    END IF;
END
$$;

DROP FUNCTION IF EXISTS gateway_cluster.subscribed();

-- Before PostgreSQL 16, the owner of a subscription may make it connect to any server.
CREATE OR REPLACE FUNCTION gateway_cluster.subscription_stays() RETURNS event_trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
        RAISE insufficient_privilege USING MESSAGE = 'only the functions of gateway_cluster change a subscription';
    END IF;
END
$$;
DO $$
BEGIN
    IF current_setting('server_version_num')::int < 160000 AND NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'gateway_subscription_stays') THEN
        CREATE EVENT TRIGGER gateway_subscription_stays ON ddl_command_start WHEN TAG IN ('ALTER SUBSCRIPTION') EXECUTE FUNCTION gateway_cluster.subscription_stays();
        -- Also when the session takes over rows of the primary.
        ALTER EVENT TRIGGER gateway_subscription_stays ENABLE ALWAYS;
    END IF;
END
$$;

-- Lets other nodes read the shared tables, the state of this node and the version of its schema. The owner of the tables calls it whenever there may be new ones.
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

-- Returns which settings for other nodes the server has loaded.
CREATE OR REPLACE FUNCTION gateway_cluster.listens(OUT listen text, OUT access text, OUT members text, OUT tls boolean, OUT loaded timestamptz, OUT faults bigint)
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT current_setting('listen_addresses'), current_setting('hba_file'), current_setting('ident_file'), current_setting('ssl')::boolean, pg_conf_load_time(),
        (SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL) + (SELECT count(*) FROM pg_ident_file_mappings WHERE error IS NOT NULL)
$$;

-- Ends the sessions of other nodes except from the given addresses, drops all slots except those with the given prefixes, and returns how many of both remain.
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
