package machine

import "testing"

func reloadsAreConfirmed(t *testing.T, e *edge, l *traffic)    {}
func reloadsAreShared(t *testing.T, e *edge, l *traffic)       {}
func proxyComesBack(t *testing.T, e *edge, l *traffic)         {}
func storedStateServes(t *testing.T, e *edge, l *traffic)      {}
func managementIsNeverAlone(t *testing.T, e *edge, l *traffic) {}
