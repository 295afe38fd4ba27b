// Command runcfront stands in front of runc where the machine itself is a sandbox. A container that asks for
// a capability outside the machine's bounding set is refused by runc; runcfront takes such capabilities out
// of the request (a bundle's config.json, or the process file of an exec) and then becomes the real runc.
// Where every capability is granted it changes nothing.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// capabilityNames is in the order of the kernel's bit numbers (linux/capability.h).
var capabilityNames = []string{
	"CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP",
	"LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER",
	"SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE",
	"SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP",
	"MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF",
	"CHECKPOINT_RESTORE",
}

// withheld returns the capabilities (CAP_…) that a /proc/PID/status text shows outside the bounding set.
func withheld(status string) (map[string]bool, error) {
	for _, line := range strings.Split(status, "\n") {
		value, found := strings.CutPrefix(line, "CapBnd:")
		if !found {
			continue
		}
		mask, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return nil, fmt.Errorf("CapBnd of /proc/self/status: %w", err)
		}
		missing := map[string]bool{}
		for bit, name := range capabilityNames {
			if mask&(1<<uint(bit)) == 0 {
				missing["CAP_"+name] = true
			}
		}
		return missing, nil
	}
	return nil, errors.New("/proc/self/status has no CapBnd line")
}

// request says which file describes the process that a runc command line would start; "" for commands
// that start none. The file of an exec is a process; that of create and run holds one as "process".
func request(args []string) (file string, isProcess bool) {
	var command, bundle, process string
	value := func(i int, short, long string) (string, bool) {
		if (args[i] == short || args[i] == long) && i+1 < len(args) {
			return args[i+1], true
		}
		return strings.CutPrefix(args[i], long+"=")
	}
	for i, arg := range args {
		if command == "" && (arg == "create" || arg == "run" || arg == "exec") {
			command = arg
		}
		if v, ok := value(i, "-b", "--bundle"); ok {
			bundle = v
		}
		if v, ok := value(i, "-p", "--process"); ok {
			process = v
		}
	}
	switch command {
	case "create", "run":
		return filepath.Join(bundle, "config.json"), false
	case "exec":
		return process, true
	}
	return "", false
}

// strip removes the missing capabilities from the JSON text of a request; everything else stays as it is.
func strip(text []byte, isProcess bool, missing map[string]bool) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var document map[string]any
	if err := decoder.Decode(&document); err != nil {
		return nil, err
	}
	process := document
	if !isProcess {
		process, _ = document["process"].(map[string]any)
	}
	sets, _ := process["capabilities"].(map[string]any)
	for set, list := range sets {
		names, _ := list.([]any)
		kept := []any{}
		for _, name := range names {
			if s, _ := name.(string); !missing[s] {
				kept = append(kept, name)
			}
		}
		sets[set] = kept
	}
	return json.Marshal(document)
}

func rewrite(args []string) error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	missing, err := withheld(string(status))
	if err != nil || len(missing) == 0 {
		return err
	}
	file, isProcess := request(args)
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err = strip(text, isProcess, missing)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, text, 0o600)
}

func main() {
	args := os.Args[1:]
	// If a request cannot be read, runc reports the error.
	if err := rewrite(args); err != nil {
		fmt.Fprintln(os.Stderr, "runcfront:", err)
	}
	runc := "/usr/sbin/runc"
	if other := os.Getenv("RUNCFRONT_RUNC"); other != "" {
		runc = other
	}
	err := syscall.Exec(runc, append([]string{"runc"}, args...), os.Environ())
	fmt.Fprintf(os.Stderr, "runcfront: %s: %v\n", runc, err)
	os.Exit(1)
}
