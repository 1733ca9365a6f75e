package schema

// Grants grants privileges to the roles of other programs, if these roles exist. It is not a migration, because roles are not
// part of a database: one that is restored elsewhere has none, and a role may be created later.
//
// The agent of the web application firewall parses hostile traffic: it reads its configuration, inserts its findings, and sees
// nothing else. Other nodes of a cluster read the shared tables.
const Grants = `
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway-waf') THEN
        REVOKE ALL ON waf_configs, waf_alerts, waf_requests FROM "gateway-waf";
        GRANT SELECT ON waf_configs TO "gateway-waf";
        GRANT INSERT ON waf_alerts, waf_requests TO "gateway-waf";
    END IF;
    IF to_regprocedure('gateway_cluster.admit()') IS NOT NULL THEN
        PERFORM gateway_cluster.admit();
    END IF;
END
$$`

// Grantees asks whether everything exists that Grants grants privileges to.
const Grantees = `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway-waf') AND to_regprocedure('gateway_cluster.admit()') IS NOT NULL`
