package app_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"edge.internal/gateway/internal/kit/httpd"
	"edge.internal/gateway/internal/kit/kittest"
)

// sets are the routes that make change sets and do not belong to one kind.
var sets = []string{
	"change-set.create", "change-set.discard", "change-set.revert", "cluster.differences.apply", "configuration.apply", "configuration.import", "configuration.revert",
	"draft.apply", "network.setup", "system.ipv6", "system.service-toggle", "tunnel.import", "tunnel.interface.generate-keypair", "tunnel.peer.generate-keypair", "waf.alert.exclude",
}

// unkept are the routes that change something without a change set, by the reason. A name that ends with a dot is a prefix.
var unkept = map[string][]string{
	"it changes nothing": {
		"alert.channel.test", "alert.test", "auth.totp.setup", "backup.remote.test", "backup.restore-plan", "certificate.preflight", "configuration.plan", "draft.preview",
		"firewall.explain", "oidc.test", "radius.test", "setup.restore.archives", "setup.restore.plan", "waf.alert.propose",
	},
	"it is about who somebody is: no login, password, token or second factor of old comes back": {
		"api-token.", "auth.", "user.oidc-subject.delete", "user.passkeys.delete", "user.password", "user.totp.disable",
	},
	"it is done at once and leaves the configuration as it is": {
		"clients.disconnect", "diagnostics.", "dns.flush-cache", "firewall.counters.reset", "ntp.force-sync", "system.job.run", "system.package-versions.refresh",
		"system.proxy-reload", "system.render-configs", "system.service-restart", "waf.alert.purge", "certificate.renew", "certificate.renew-due",
	},
	"it is about backups, or replaces everything, the history too": {"backup.", "setup.restore.", "system.upgrade"},
	"it is about the nodes of a cluster, each of which must agree": {
		"cluster.certificate.issue", "cluster.differences.delete", "cluster.initialise", "cluster.join-token.create", "cluster.leave", "cluster.promote", "cluster.repair",
		"cluster.rolling-update",
	},
	"it collects what becomes a change set, or decides about one": {"change-set.confirm", "draft.add", "draft.discard", "draft.remove"},
	"the setup is done once": {"setup.complete", "setup.complete-node", "setup.join-cluster"},
	"CrowdSec has it":        {"ids.bouncer.", "ids.decision."},
	"it is not in the database, because it must be known without one": {"certificate.acme", "license.", "system.auto-update", "system.maintenance", "system.retention"},
}

// Every route that changes something makes a change set, so that there is a history and a revert, or it is listed here with the
// reason why it does not.
func TestEveryMutationMakesAChangeSet(t *testing.T) {
	h := build(t, kittest.New(t))
	kinds := map[string]bool{}
	for _, table := range h.Resources.Tables() {
		kinds[table.Kind] = table.Kind != ""
	}
	verbs := []string{"create", "update", "delete", "annotate", "reorder", "move"}
	excused := func(id string) (names []string) {
		for _, list := range unkept {
			for _, name := range list {
				if name == id || strings.HasSuffix(name, ".") && strings.HasPrefix(id, name) {
					names = append(names, name)
				}
			}
		}
		return names
	}
	met := map[string]bool{}
	for _, route := range h.routes {
		if route.Method == http.MethodGet {
			continue
		}
		kind, verb := route.ID[:strings.LastIndex(route.ID, ".")], route.ID[strings.LastIndex(route.ID, ".")+1:]
		ofKind := kinds[strings.TrimSuffix(kind, ".below")] && slices.Contains(verbs, verb)
		names := excused(route.ID)
		if slices.Contains(sets, route.ID) {
			names = append(names, route.ID)
		}
		for _, name := range names {
			met[name] = true
		}
		if !ofKind && len(names) == 0 {
			t.Errorf("%s %s (%s) is of no kind: it makes a change set, or there is a reason why it does not", route.Method, route.Path, route.ID)
		}
	}
	all := slices.Clone(sets)
	for _, list := range unkept {
		all = append(all, list...)
	}
	for _, name := range all {
		if !met[name] {
			t.Errorf("there is no route %s", name)
		}
	}
}

// What cannot be reverted is not done for a caller who expects that it can be.
func TestWhatIsNotInTheDatabaseCannotWaitToBeConfirmed(t *testing.T) {
	h := build(t, kittest.New(t))
	admin := h.setUp(t)
	for _, x := range []struct{ method, path, body string }{
		{http.MethodPost, "/system/maintenance", `{"enabled":true}`}, {http.MethodPost, "/system/auto-update", `{"enabled":true}`},
		{http.MethodPut, "/system/retention", `{"audit_days":7}`}, {http.MethodPut, "/certificates/acme", `{"enabled":true,"email":"acme@example.net"}`},
	} {
		before := string(h.call(t, admin, http.MethodGet, x.path, nil).Want(t, 200).Body)
		call := func(headers ...string) *kittest.Answer {
			return kittest.Call(t, h.Handler(), x.method, x.path, x.body, append(headers, "Authorization", "Bearer "+admin, "X-Test-Client", loopback)...)
		}
		if a := call(httpd.ConfirmWithinHeader, "60").Want(t, 400); !strings.Contains(a.Error.Message, httpd.ConfirmWithinHeader) {
			t.Errorf("%s: %s", x.path, a.Body)
		}
		if after := string(h.call(t, admin, http.MethodGet, x.path, nil).Want(t, 200).Body); after != before {
			t.Errorf("%s was changed from %s to %s", x.path, before, after)
		}
		call().Want(t, 200)
	}
}
