package httpd

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Observe counts and times every call in the metrics.
func (r *Router) Observe(reg prometheus.Registerer) {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "gateway_http_request_seconds", Help: "Time to answer API requests.", Buckets: []float64{.001, .005, .02, .1, .5, 2, 10},
	}, []string{"operation", "status"})
	reg.MustRegister(calls)
	r.observe = func(operation string, status int, d time.Duration) {
		calls.WithLabelValues(operation, strconv.Itoa(status)).Observe(d.Seconds())
	}
}
