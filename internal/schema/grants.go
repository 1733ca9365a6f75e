package schema

// Grants gives the roles of other programs their rights, where there are such roles. It is not a migration, because roles are not part
// of a database: one that is restored elsewhere has none, and the role may be made later.
//
// The agent of the web application firewall parses hostile traffic: it reads its configuration, adds what it found, and sees nothing
// else. Other nodes of a cluster read what all share.
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

// Grantees asks whether all exists that Grants gives something to.
const Grantees = `SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gateway-waf') AND to_regprocedure('gateway_cluster.admit()') IS NOT NULL`
