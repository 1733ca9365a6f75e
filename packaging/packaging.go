// Package packaging finds what the scripts of this folder fetch or make once for the tests.
package packaging

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Path runs a script of this folder, vm.sh for one, which makes its result if it is not there yet, and answers where that is.
func Path(script string, words ...string) (string, error) {
	folder, err := Tree()
	if err != nil {
		return "", err
	}
	var said bytes.Buffer
	cmd := exec.Command(filepath.Join(folder, "packaging", script), words...)
	cmd.Stderr = &said
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("packaging/%s: %w: %s", script, err, &said)
	}
	return strings.TrimSpace(string(path)), nil
}

// Tree is the checkout that the working directory is in.
func Tree() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == "/" {
			return "", errors.New("there is no go.mod above the working directory")
		}
	}
}
