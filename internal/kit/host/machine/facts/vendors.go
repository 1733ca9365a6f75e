package facts

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"edge.internal/gateway/internal/kit/host"
)

// registries are the IEEE's lists as Debian installs them, from the longest prefixes to the shortest: a part of a block may have another
// owner than the block.
var registries = struct {
	folder string
	files  []string
}{"/usr/share/ieee-data", []string{"oui36.csv", "iab.csv", "mam.csv", "oui.csv"}}

// assignments are the lengths of prefixes, in hexadecimal digits.
var assignments = []int{9, 7, 6}

// vendors caches the answers, not the lists: a network has few vendors, and the lists have fifty thousand.
type vendors struct {
	mu    sync.Mutex
	known map[string]string // by MAC address; empty if no list has it
	stamp string            // modification time of the lists that were read
}

// Vendors returns the makers of the network cards with these MAC addresses.
func (s *Known) Vendors(macs []string) (map[string]string, error) {
	return s.vendors.of(registries.folder, macs)
}

func (v *vendors) of(folder string, macs []string) (map[string]string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	main, err := os.Stat(filepath.Join(folder, registries.files[len(registries.files)-1]))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the list of vendors: %w", host.ErrNotInstalled)
	}
	if err != nil {
		return nil, err
	}
	if stamp := main.ModTime().String(); v.known == nil || v.stamp != stamp {
		v.known, v.stamp = map[string]string{}, stamp
	}
	var unknown []string
	for _, mac := range macs {
		if _, ok := v.known[mac]; !ok {
			unknown = append(unknown, mac)
		}
	}
	if len(unknown) > 0 {
		if err := v.lookUp(folder, unknown); err != nil {
			return nil, err
		}
	}
	found := map[string]string{}
	for _, mac := range macs {
		if name := v.known[mac]; name != "" {
			found[mac] = name
		}
	}
	return found, nil
}

func (v *vendors) lookUp(folder string, macs []string) error {
	wanted := map[string][]string{} // MAC addresses by each prefix that may be assigned
	for _, mac := range macs {
		digits := strings.ToUpper(strings.ReplaceAll(mac, ":", ""))
		for _, n := range assignments {
			if len(digits) >= n {
				wanted[digits[:n]] = append(wanted[digits[:n]], mac)
			}
		}
	}
	found := map[string]string{}
	for _, name := range registries.files {
		err := eachAssignment(filepath.Join(folder, name), func(prefix, organization string) {
			for _, mac := range wanted[prefix] {
				if _, ok := found[mac]; !ok {
					found[mac] = organization
				}
			}
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, mac := range macs {
		v.known[mac] = found[mac]
	}
	return nil
}

// eachAssignment calls visit with each prefix of a list, in hexadecimal digits, and its owner.
func eachAssignment(path string, visit func(prefix, organization string)) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := csv.NewReader(f)
	lines.ReuseRecord, lines.FieldsPerRecord = true, -1
	for {
		fields, err := lines.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the list of vendors: %w", err)
		}
		if len(fields) > 2 {
			visit(fields[1], strings.TrimSpace(fields[2]))
		}
	}
}
