package backup

import "edge.internal/gateway/internal/kit/alarm"

var (
	// Failed is also raised by the scheduler if it cannot start the scheduled backup.
	Failed = &alarm.Kind{
		Name: "backup.failed", Severity: alarm.Error, Mutable: true, Meaning: "The scheduled backup failed.",
	}
	verifyFailed = &alarm.Kind{
		Name: "backup.verify_failed", Severity: alarm.Error, Mutable: true,
		Meaning: "A trial restore of a backup failed, so it may be unusable.",
	}
)

// Alarms lists the kinds that this room reports.
var Alarms = []*alarm.Kind{Failed, verifyFailed}
