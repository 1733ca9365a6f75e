package units

import (
	"fmt"
	"path/filepath"
	"strings"

	"edge.internal/gateway/internal/kit/host"
)

// Parse reads a program's --units flag: "systemd", "lab" or "lab:SOCKET" for the lab's supervisor, or "none:REASON" where no daemon can
// run.
func Parse(flag string) (host.Units, error) {
	kind, detail, _ := strings.Cut(flag, ":")
	switch {
	case flag == "systemd":
		return Systemd{}, nil
	case flag == "lab":
		return Supervisor{Socket: SupervisorSocket}, nil
	case kind == "lab" && filepath.IsAbs(detail):
		return Supervisor{Socket: detail}, nil
	case kind == "none" && detail != "":
		return None{Reason: detail}, nil
	}
	return nil, fmt.Errorf("units %q: want systemd, lab, lab:SOCKET or none:REASON", flag)
}
