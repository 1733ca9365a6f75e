// Package packaging provides what the scripts of this folder download or build once for the tests.
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

// Path runs a script of this folder, such as vm.sh, which creates its result unless it exists, and returns the path of the
// result.
func Path(script string, words ...string) (string, error) {
	folder, err := Tree()
	if err != nil {
		return "", err
	}
	var stderr bytes.Buffer
	cmd := exec.Command(filepath.Join(folder, "packaging", script), words...)
	cmd.Stderr = &stderr
	path, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("packaging/%s: %w: %s", script, err, &stderr)
	}
	return strings.TrimSpace(string(path)), nil
}

// Tree returns the checkout that contains the working directory.
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
